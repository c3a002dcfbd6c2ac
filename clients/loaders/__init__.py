"""Files that users bring, as data sets. What is in them is measured before it is believed."""
