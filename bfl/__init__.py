"""The front door: command line, simulation, experiments."""

from importlib.metadata import PackageNotFoundError, version

try:
    __version__ = version("bfl")
except PackageNotFoundError:  # run from a folder that was never installed
    __version__ = "0+unknown"
