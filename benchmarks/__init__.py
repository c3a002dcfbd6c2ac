"""Measurements. Each script prints a table; every speed is a ratio to a named peer in the same run."""

import bfl.cli  # noqa: F401 - sets, before torch is imported, what the command line sets
