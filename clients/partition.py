"""Who holds which images (L1): flwr-datasets' partitioners over a table of indices, never over the images."""

import logging
import warnings
from typing import Any

import numpy as np
from numpy.typing import NDArray

from clients.errors import PartitionError
from clients.parameters import DataParams
from clients.plugins import OPEN_POINTS, load_plugin
from clients.root_set import without_root
from policy.streams import Purpose, stream

OWN = OPEN_POINTS["partition"].names
Share = NDArray[np.int64]
"""Indices of one device's images, in the training table."""


def partition(labels: NDArray[np.int64], params: DataParams, labels_per_device: int, root_set: int = 0) -> list[Share]:
    """One share per device: disjoint, together all images, none empty.

    `labels_per_device` is the data set's own setting, used where the parameters leave it open. `root_set` images of
    each label are nobody's.
    """
    return without_root(_shares(labels, params, labels_per_device), labels, root_set, params.seed)


def _shares(labels: NDArray[np.int64], params: DataParams, labels_per_device: int) -> list[Share]:
    if params.devices > len(labels):
        raise PartitionError(
            f"{params.partition} partition: found {params.devices} devices for {len(labels):,} images, "
            "expected at least an image for each"
        )
    if params.partition not in OWN:
        shares = _foreign_shares(labels, params)
        check_shares(shares, labels, params)
        return shares
    table, shuffled = _index_table(labels, params.seed)
    partitioner = _partitioner(params, params.labels_per_device or labels_per_device)
    partitioner.dataset = table
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # what they warn of is an error below
            rows = [partitioner.load_partition(n)[:]["row"] for n in range(params.devices)]
    except ValueError as error:
        raise PartitionError(f"{params.partition} partition for {params.devices} devices: {error}") from error
    shares = [np.sort(shuffled[np.asarray(row, dtype=np.int64)]) for row in rows]
    check_shares(shares, labels, params)
    return shares


def _foreign_shares(labels: NDArray[np.int64], params: DataParams) -> list[Share]:
    """What somebody's own function of (labels, devices, rng) deals to the devices."""
    deal = load_plugin("partition", params.partition, PartitionError)
    dealt = deal(labels.copy(), params.devices, stream(params.seed, Purpose.PARTITION))
    try:
        shares = [np.sort(np.asarray(share, dtype=np.int64).reshape(-1)) for share in dealt]
    except (TypeError, ValueError, OverflowError) as error:
        raise PartitionError(f"{params.partition}: found shares that are no lists of indices ({error})") from error
    outside = [n for n, share in enumerate(shares) if len(share) and not 0 <= share[0] <= share[-1] < len(labels)]
    if len(shares) != params.devices or outside:
        found = f"{len(shares)} shares" if not outside else f"indices of device {outside[0]} outside the data"
        raise PartitionError(
            f"{params.partition}: found {found}, expected {params.devices} lists of indices from 0 to {len(labels) - 1}"
        )
    return shares


def check_shares(shares: list[Share], labels: NDArray[np.int64], params: DataParams) -> None:
    """Raise `PartitionError` unless every image has exactly one device and every device an image."""
    empty = [n for n, share in enumerate(shares) if len(share) == 0]
    if empty:
        names = ", ".join(map(str, empty[:10])) + (" ..." if len(empty) > 10 else "")
        raise PartitionError(
            f"{params.partition} partition: {len(empty)} of {params.devices} devices have no data (device {names}); "
            "use fewer devices, a larger alpha or another seed"
        )
    held = np.bincount(np.concatenate(shares), minlength=len(labels))
    if (held > 1).any():
        raise PartitionError(
            f"{params.partition} partition: {int((held > 1).sum()):,} images have more than one device"
        )
    if not (held == 1).all():
        lost = sorted({int(label) for label in labels[held == 0]})
        raise PartitionError(
            f"{params.partition} partition: {int((held == 0).sum()):,} images of labels {lost} have no device; "
            "use more devices or raise labels-per-device"
        )


def _index_table(labels: NDArray[np.int64], seed: int) -> tuple[Any, NDArray[np.int64]]:
    """A shuffled table (row, label) for the partitioners, and the image behind each row."""
    datasets = _import_datasets()
    order = stream(seed, Purpose.PARTITION).permutation(len(labels))
    table = datasets.Dataset.from_dict({"row": np.arange(len(labels)), "label": labels[order]})
    return table, order


def _import_datasets() -> Any:
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="IProgress not found")  # a notebook without widgets
            import datasets
    except ImportError as error:
        raise PartitionError(f"dividing a data set needs flwr-datasets ({error}): install bfl[simulation]") from error
    datasets.disable_progress_bars()
    logging.getLogger("datasets").setLevel(logging.ERROR)
    return datasets


def _partitioner(params: DataParams, labels_per_device: int) -> Any:
    from flwr_datasets.partitioner import DirichletPartitioner, IidPartitioner, PathologicalPartitioner

    class EvenLabelsPartitioner(PathologicalPartitioner):  # type: ignore[misc]
        """Its own modes leave labels unevenly spread unless the counts are lucky; L1 asks for even ones."""

        def _determine_partition_id_to_unique_labels(self) -> None:
            self._unique_labels = sorted(self.dataset.unique(self._partition_by))
            self._partition_id_to_unique_labels = deal_labels(
                self._unique_labels, self._num_partitions, self._num_classes_per_partition, self._rng
            )

    seed = int(stream(params.seed, Purpose.PARTITION, who=1).integers(2**32))
    if params.partition == "iid":
        return IidPartitioner(params.devices)
    if params.partition == "non-iid":
        return EvenLabelsPartitioner(params.devices, "label", labels_per_device, seed=seed)
    return DirichletPartitioner(params.devices, "label", params.alpha, min_partition_size=0, seed=seed)


def deal_labels(labels: list[int], devices: int, per_device: int, rng: np.random.Generator) -> dict[int, list[int]]:
    """`per_device` distinct labels to each device, each label to equally many devices (give or take one).

    Every device takes the labels that the fewest others have, ties at random.
    """
    if per_device > len(labels):
        raise ValueError(f"{per_device} labels per device, but the data has {len(labels)}")
    times = np.zeros(len(labels), dtype=np.int64)
    hands = {}
    for device in range(devices):
        taken = np.lexsort((rng.random(len(labels)), times))[:per_device]
        times[taken] += 1
        hands[device] = sorted(labels[i] for i in taken)
    return hands
