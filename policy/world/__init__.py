"""The latency model: the state of a round, radio, projection, latency (S1-S26)."""
