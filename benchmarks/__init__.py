"""Measurements. Each script prints a table; every speed is a ratio to a named peer in the same run."""
