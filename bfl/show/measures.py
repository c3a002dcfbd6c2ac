"""What a number of a run is, wherever it is shown."""

LAST_EVALUATIONS = 5
"""Whose mean is a run's accuracy: in its summary, on its pictures, on its page"""
