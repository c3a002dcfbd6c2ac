"""Figures of the policy and the latency."""
