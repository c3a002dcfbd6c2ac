"""Policies without learning, to compare with."""
