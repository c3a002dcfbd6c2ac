"""The arithmetic of eqs. 4-12: gradients, aggregation, gossip, schemes, filters."""
