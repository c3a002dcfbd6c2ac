"""Faults in a network of processes (`python -m benchmarks.faults`)."""
