"""A node over JSON-RPC: methods, limits, server, peers; and from within the same process."""
