"""An edge server as a process of its own: its node, its devices and the other servers are across the network (D1)."""
