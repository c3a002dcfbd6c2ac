"""Figures of accuracy, consensus and convergence."""
