"""The whole system in one process, and the folder that a run leaves."""
