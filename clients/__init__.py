"""A device: it trains the shared model on its own data, or hands the data to an edge server."""
