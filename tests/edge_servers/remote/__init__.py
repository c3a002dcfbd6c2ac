"""Tests of an edge server whose node and devices are other processes."""
