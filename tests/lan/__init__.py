"""A local network on one machine, with everything that goes wrong in one: `tests.lan.lan.Lan`."""
