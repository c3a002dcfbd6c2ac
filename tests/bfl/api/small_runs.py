"""Runs of a second through the API, for the tests of this folder."""

from typing import Any

from tests.bfl.runs import SMALL

QUICK: dict[str, Any] = {name.replace("-", "_"): value for name, value in SMALL.items()}
"""Off the chain"""
QUICK |= {"rounds": 3, "progress": False}
ON_CHAIN: dict[str, Any] = QUICK | {"scheme": "bfl", "hidden": 4, "iterations": 1, "phi": 2, "difficulty": 1}
