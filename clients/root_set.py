"""The root set: a few public images of every label by which filters judge gradients (P7). No device holds them.

They are drawn from the training data at founding, and by nobody again: whoever has the data set and the settings has
them, so that every server and every auditor can judge for itself.
"""

from collections.abc import Mapping

from clients.plugins import OPEN_POINTS

VERDICTS = ("direction", "harm", "loss")
"""Filters that judge by the root set"""
KEY = "root-set"


def verdicts_in(filter_text: str) -> list[str]:
    """The filters of a run that judge by the root set, without their options."""
    heads = [part.partition(":")[0] for part in OPEN_POINTS["filter"].parts(filter_text)]
    return [head for head in heads if head in VERDICTS]


def held_back(settings: Mapping[str, object]) -> int:
    """Images per label that no device holds: none where no filter judges. A founding that says nothing has none."""
    return int(str(settings.get(KEY, 0))) if verdicts_in(str(settings.get("filter", ""))) else 0
