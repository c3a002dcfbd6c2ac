"""A node over JSON-RPC: methods, limits, server; and from within the same process."""
