"""A chain to read and to check, without executing it."""
