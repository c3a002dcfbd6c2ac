"""Figures of attacks and defences."""
