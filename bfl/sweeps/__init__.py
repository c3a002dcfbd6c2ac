"""Many runs from one file: a grid of settings times seeds, made in parallel, gone on with after any kill, one table."""
