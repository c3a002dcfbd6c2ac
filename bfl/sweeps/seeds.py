"""Seeds as people write them: 0-4, or 0,3,7, or both."""

import re

from bfl.errors import ConfigError

MOST_SEEDS = 1000
_PART = re.compile(r"(\d{1,18})(?:-(\d{1,18}))?")


def read_seeds(given: object, source: str) -> tuple[int, ...]:
    """The seeds in a text such as "0-4,7", or in a list of numbers, each once, in their order."""
    if isinstance(given, int) and not isinstance(given, bool) and given >= 0:
        return (given,)
    if isinstance(given, str):
        seeds = _in_text(given, source)
    elif isinstance(given, list) and all(type(each) is int and each >= 0 for each in given):
        seeds = given
    else:
        raise _refusal(given, source)
    if not seeds or len(seeds) > MOST_SEEDS:
        raise ConfigError(f"{source}: found {len(seeds)} seeds, expected 1 to {MOST_SEEDS:,}")
    return tuple(dict.fromkeys(seeds))


def _in_text(text: str, source: str) -> list[int]:
    seeds: list[int] = []
    for part in text.split(","):
        found = _PART.fullmatch(part.strip())
        if found is None:
            raise _refusal(text, source)
        first, last = int(found[1]), int(found[2] or found[1])
        if last < first or last - first >= MOST_SEEDS:
            raise ConfigError(
                f"{source}: found {part.strip()}, expected a range of 1 to {MOST_SEEDS:,} seeds, the smaller one first"
            )
        seeds += range(first, last + 1)
    return seeds


def _refusal(given: object, source: str) -> ConfigError:
    return ConfigError(f'{source}: found {given!r:.80}, expected seeds such as "0-4" or "0,3,7" or [0, 3, 7]')


def seeds_text(seeds: tuple[int, ...]) -> str:
    """The same for people: 0-4,7."""
    parts: list[list[int]] = []
    for seed in seeds:
        if parts and seed == parts[-1][-1] + 1:
            parts[-1] = [parts[-1][0], seed]
        else:
            parts.append([seed])
    return ",".join("-".join(map(str, part)) for part in parts)
