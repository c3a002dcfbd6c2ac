"""The tools of the system that build a network: `ip`, `tc`, `nsenter`, `mount`, `umount`."""

import subprocess

from bfl.errors import BflError

_ENDS_S = 20.0


class LanError(BflError):
    """The network cannot do what it was asked for."""


def run_tool(*words: str) -> str:
    """What a command of the system prints; raises `LanError` with the command and what it said."""
    command = " ".join(words)
    try:
        done = subprocess.run(  # noqa: S603 - words of ours
            words, capture_output=True, text=True, timeout=_ENDS_S, stdin=subprocess.DEVNULL
        )
    except FileNotFoundError as error:
        raise LanError(f"`{command}`: found no {words[0]}; install it (Debian: iproute2, util-linux, mount)") from error
    except subprocess.TimeoutExpired as error:
        raise LanError(f"`{command}` did not end within {_ENDS_S:g} s") from error
    if done.returncode != 0:
        said = (done.stderr or done.stdout).strip()
        raise LanError(f"`{command}` ended with {done.returncode}: {said or 'nothing said'}")
    return done.stdout
