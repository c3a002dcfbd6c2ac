"""Files that users bring, as data sets: tables, folders of images, CIFAR-10. What is in them is measured before it is believed."""
