"""What libraries are told before they are first imported."""

import os


def settle_libraries() -> None:
    """Torch reads this when it is loaded. Threads that wait for each other spin for milliseconds by default, which on a
    busy machine makes a round ten times slower; this is microseconds. Flower shall call nobody.
    """
    os.environ.setdefault("GOMP_SPINCOUNT", "10000")
    os.environ.setdefault("FLWR_TELEMETRY_ENABLED", "0")
    os.environ.setdefault("FLWR_DISABLE_UPDATE_CHECK", "1")
