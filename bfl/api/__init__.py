"""What `import bfl` gives to Python programs and notebooks: simulate, open a run, look at it, go on with it."""
