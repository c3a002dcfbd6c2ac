"""The offloading problem as gymnasium environments."""
