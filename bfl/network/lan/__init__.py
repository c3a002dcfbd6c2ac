"""Machines as network namespaces of this computer, joined by a bridge: for rehearsals and tests (root)."""
