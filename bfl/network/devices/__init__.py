"""A device of a kit: what its key, its data and its plans make of it, in each process that it is."""
