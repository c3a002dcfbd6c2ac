"""A server and its devices: orders out, replies in, who is let in, the closed list."""
