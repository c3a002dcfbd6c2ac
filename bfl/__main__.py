"""`python -m bfl`."""

from bfl.cli import main

main()
