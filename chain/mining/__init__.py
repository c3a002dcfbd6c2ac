"""A device's miner and the process it runs in."""
