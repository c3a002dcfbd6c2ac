"""Who holds which samples (L1): equal parts, or flwr-datasets' partitioners over a table of indices.

Flwr-datasets brings pandas, matplotlib and aiohttp with it, seconds that equal parts do without.
"""

import logging
import warnings
from typing import Any

import numpy as np
from numpy.typing import NDArray

from clients.data import Dataset
from clients.dealing import by_group, by_quantity, made_writers
from clients.errors import PartitionError
from clients.parameters import DataParams
from clients.plugins import OPEN_POINTS, load_plugin
from clients.root_draw import without_root
from policy.extras import install_command
from policy.streams import Purpose, stream

OWN = OPEN_POINTS["partition"].names
Share = NDArray[np.int64]
"""Indices of one device's samples, in the training table."""


def shares_of(dataset: Dataset, params: DataParams, root_set: int = 0) -> list[Share]:
    """One share of the training samples per device; `root_set` samples of each label are nobody's."""
    labels = dataset.train.labels.numpy()
    shares = partition(labels, params, dataset.labels_per_device, dataset.groups)
    return without_root(shares, labels, root_set, params.seed)


def partition(
    labels: NDArray[np.int64],
    params: DataParams,
    labels_per_device: int,
    groups: NDArray[np.int64] | None = None,
) -> list[Share]:
    """One share per device: disjoint, together all samples, none empty.

    `labels_per_device` is the data set's own setting, used where the parameters leave it open; `groups` says who each
    sample is from, where the data set knows.
    """
    if params.devices > len(labels):
        raise PartitionError(
            f"{params.partition} partition: found {params.devices} devices for {len(labels):,} samples, "
            "expected at least a sample for each"
        )
    if params.partition not in OWN or params.partition in ("by-group", "quantity"):
        shares = _dealt_shares(labels, params, groups)
        check_shares(shares, labels, params)
        return shares
    shuffled = stream(params.seed, Purpose.PARTITION).permutation(len(labels))
    if params.partition == "iid":
        return [np.sort(part) for part in np.array_split(shuffled, params.devices)]
    table = _index_table(labels[shuffled])
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


def _dealt_shares(labels: NDArray[np.int64], params: DataParams, groups: NDArray[np.int64] | None) -> list[Share]:
    """What needs no table of flwr-datasets."""
    rng = stream(params.seed, Purpose.PARTITION, who=2)
    if params.partition == "quantity":
        return [np.sort(share) for share in by_quantity(len(labels), params.devices, params.alpha, rng)]
    if params.partition == "by-group":
        if groups is None:
            groups = made_writers(labels, params.devices, params.alpha, rng)
        return by_group(groups, params.devices, rng)
    return _foreign_shares(labels, params)


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
    """Raise `PartitionError` unless every sample has exactly one device and every device a sample."""
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
            f"{params.partition} partition: {int((held > 1).sum()):,} samples have more than one device"
        )
    if not (held == 1).all():
        lost = sorted({int(label) for label in labels[held == 0]})
        raise PartitionError(
            f"{params.partition} partition: {int((held == 0).sum()):,} samples of labels {lost} have no device; "
            "use more devices or raise labels-per-device"
        )


def _index_table(labels: NDArray[np.int64]) -> Any:
    """A table (row, label) for the partitioners."""
    return _import_datasets().Dataset.from_dict({"row": np.arange(len(labels)), "label": labels})


def _import_datasets() -> Any:
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="IProgress not found")  # a notebook without widgets
            import datasets
    except ImportError as error:
        raise PartitionError(
            f"dividing a data set needs flwr-datasets ({error}); get it with: {install_command('simulation')}"
        ) from error
    datasets.disable_progress_bars()
    logging.getLogger("datasets").setLevel(logging.ERROR)
    return datasets


def _partitioner(params: DataParams, labels_per_device: int) -> Any:
    from flwr_datasets.partitioner import DirichletPartitioner, PathologicalPartitioner

    class EvenLabelsPartitioner(PathologicalPartitioner):  # type: ignore[misc]
        """Its own modes leave labels unevenly spread unless the counts are lucky; L1 asks for even ones."""

        def _determine_partition_id_to_unique_labels(self) -> None:
            self._unique_labels = sorted(self.dataset.unique(self._partition_by))
            self._partition_id_to_unique_labels = deal_labels(
                self._unique_labels, self._num_partitions, self._num_classes_per_partition, self._rng
            )

    seed = int(stream(params.seed, Purpose.PARTITION, who=1).integers(2**32))
    if params.partition == "non-iid":
        return EvenLabelsPartitioner(params.devices, "label", labels_per_device, seed=seed)
    # Of every label, the parts of the devices are drawn from Dir(alpha): Yurochkin et al. 2019, Li et al. 2022
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
