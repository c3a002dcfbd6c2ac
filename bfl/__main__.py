"""`python -m bfl`, and the command `bfl`: Ctrl-C is answered from the first moment on."""

import sys


def main() -> None:
    """The command line."""
    try:
        from bfl.cli import main as command_line
    except KeyboardInterrupt:
        print("Interrupted before anything was done.", file=sys.stderr)
        sys.exit(130)
    command_line()


if __name__ == "__main__":
    main()
