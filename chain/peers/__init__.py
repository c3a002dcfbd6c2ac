"""Nodes that know each other: what one accepts the others hear, and what one missed it fetches."""
