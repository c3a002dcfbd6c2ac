"""The pictures of a run: files, which a notebook shows as what they are."""

from base64 import b64encode
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from html import escape
from pathlib import Path


@dataclass(frozen=True)
class Plot:
    """One picture."""

    path: Path

    def _repr_png_(self) -> bytes:
        return self.path.read_bytes()


class Plots(Mapping[str, Plot]):
    """The pictures of a run by name: accuracy, loss, latency, partition. Empty where matplotlib is not installed."""

    def __init__(self, folder: Path, run: object = None) -> None:
        self._folder = folder
        self._run = run
        """Whose temporary folder goes when nobody has it any more"""

    def __getitem__(self, name: str) -> Plot:
        path = self._folder / f"{name}.png"
        if name not in list(self):
            raise KeyError(f"{name}: found {', '.join(self) or 'no pictures (extra `simulation`)'} in {self._folder}")
        return Plot(path)

    def __iter__(self) -> Iterator[str]:
        return iter(sorted(path.stem for path in self._folder.glob("*.png")))

    def __len__(self) -> int:
        return len(list(iter(self)))

    def __repr__(self) -> str:
        return f"<plots {', '.join(self) or 'none'} in {self._folder}>"

    def _repr_html_(self) -> str:
        pictures = [(name, b64encode(self[name].path.read_bytes()).decode()) for name in self]
        return "".join(
            f'<img alt="{escape(name)}" style="max-width:48%" src="data:image/png;base64,{png}">'
            for name, png in pictures
        )
