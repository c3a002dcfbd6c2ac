"""The page's server: the API, the stream, metrics for Prometheus, and who is let in."""
