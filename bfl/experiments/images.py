"""What federated figures learn from, and whether it is there."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Self, cast

from bfl.errors import BflError

SVHN_FILES = ("train_32x32.mat", "test_32x32.mat")
SVHN_HOME = "http://ufldl.stanford.edu/housenumbers/"


class MissingDataError(BflError):
    """A data set that this machine does not have."""


@dataclass(frozen=True)
class ImageSource:
    """A data set, and the folder with its files where the user names one."""

    dataset: str = "fashion-mnist"
    folder: str = ""

    def on(self, dataset: str, data_dir: str) -> "ImageSource":
        """Another data set, or a folder. Without a data set the folder is SVHN's: Fashion-MNIST is found anyway."""
        if dataset:
            return ImageSource(dataset, data_dir)
        return ImageSource(self.dataset, data_dir) if data_dir and self.dataset == "svhn" else self

    def locate(self) -> "ImageSource":
        """The same with its folder; `MissingDataError` says in one line what is missing.

        SVHN is never downloaded here: it is 250 MB, and nobody asked for it who typed `all`.
        """
        from clients.data import load_dataset
        from clients.errors import DataError
        from clients.sources import cache_folder

        place = self
        if self.dataset == "svhn":
            folder = Path(self.folder).expanduser() if self.folder else cache_folder() / "svhn"
            if missing := [name for name in SVHN_FILES if not (folder / name).is_file()]:
                raise MissingDataError(
                    f"SVHN: {' and '.join(missing)} not found in {folder}; get them from {SVHN_HOME} "
                    "and name their folder with --data-dir"
                )
            place = ImageSource(self.dataset, str(folder))
        try:
            load_dataset(place.dataset, place.folder, 0)
        except DataError as error:
            raise MissingDataError(" ".join(str(error).split())) from error
        return place


class ImageFigure:
    """A figure that is measured by federated runs: a dataclass with a field `images`."""

    images: ImageSource

    def on(self, dataset: str, data_dir: str) -> Self:
        """The same figure on other images."""
        other: Any = self
        return cast(Self, replace(other, images=self.images.on(dataset, data_dir)))

    def check(self) -> None:
        """Raise `MissingDataError` unless the images are there."""
        self.images.locate()
