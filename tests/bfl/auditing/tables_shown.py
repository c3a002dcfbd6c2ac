"""Tables as people see them, read back."""


def rows(shown: str) -> dict[str, str]:
    """The second column of a table by its first."""
    cells = [[cell.strip() for cell in line.split("│")[1:-1]] for line in shown.splitlines() if line.startswith("│")]
    return {name: value for name, value, *_ in cells if name}
