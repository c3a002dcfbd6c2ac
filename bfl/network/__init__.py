"""A network on real machines: what it is made of, its certificates, its founding, and a kit for each machine (D6)."""
