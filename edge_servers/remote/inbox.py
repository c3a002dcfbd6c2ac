"""Data that other servers bring to this one (D7): of planned devices alone, once, in memory, for one attempt."""

import threading
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace

import numpy as np
from eth_account.signers.local import LocalAccount

from chain.protocol.endorsements import Domain
from chain.wire.address import Address
from chain.wire.plan import Plan
from clients.errors import ReplyError
from clients.replies import DataReply, read_data
from clients.sealing import MORE_BYTES, associated, open_sealed
from edge_servers.devices.admission import check_data
from edge_servers.errors import EdgeError, GradientRefusedError
from edge_servers.founding.network import LearningTask, Network
from edge_servers.remote.receipts import Receipt, receipt_for

_LABEL_BYTES = 8


class NotWantedError(EdgeError):
    """Data that this server did not expect, not now, not of this device, or not so many."""


@dataclass(frozen=True)
class _Open:
    """The attempt that data may come for."""

    plan: Plan
    attempt: int
    until_s: float
    serving: Sequence[int]
    """By device, the server that orders it, and brings its data."""


class Inbox:
    """What has arrived; filled by the thread that answers other edges, emptied by the server."""

    def __init__(
        self, index: int, account: LocalAccount, network: Network, task: LearningTask, domain: Domain,
        now: Callable[[], float],
    ) -> None:  # fmt: skip
        self._index, self._account, self._network, self._task = index, account, network, task
        self._domain, self._now = domain, now
        self._changed = threading.Condition()
        self._open: _Open | None = None
        self._data: dict[int, DataReply] = {}
        self._declined: set[int] = set()

    def open(self, plan: Plan, attempt: int, within_s: float, serving: Sequence[int]) -> None:
        """From now on data of this attempt are taken; those of before are gone."""
        with self._changed:
            self._open = _Open(plan, attempt, self._now() + within_s, serving)
            self._data, self._declined = {}, set()
            self._changed.notify_all()

    def close(self) -> None:
        """Nothing is taken, and nothing kept."""
        with self._changed:
            self._open, self._data = None, {}

    @property
    def most_bytes(self) -> int:
        """Of one device's data: as many samples as it may have, and what sealing adds."""
        like = self._task.like.inputs.numpy()
        each = int(like[0].nbytes) + _LABEL_BYTES if len(like) else _LABEL_BYTES
        return MORE_BYTES + each * max((device.samples for device in self._network.devices), default=0)

    def expects(self, round_: int, attempt: int, device: int, sender: Address) -> _Open:
        """The attempt for which this server may bring this device's data; `NotWantedError` says why not."""
        opened = self._open
        if opened is None or (opened.plan.round, opened.attempt) != (round_, attempt):
            raise NotWantedError(f"found data of round {round_}, attempt {attempt}, which this server is not at")
        if self._now() > opened.until_s:
            raise NotWantedError(f"found data of round {round_} too late: this server trains already")
        if not 0 <= device < len(self._network.devices) or opened.plan.assignment[device] != self._index:
            raise NotWantedError(f"found data of device {device}, which the plan does not send here")
        if self._network.servers[opened.serving[device]] != sender:
            raise NotWantedError(f"found data of device {device} from {sender}, which does not order it in this round")
        return opened

    def take(self, round_: int, attempt: int, device: int, sender: Address, sealed: bytes) -> Receipt:
        """Open, check and keep them; what to give the sender for them."""
        opened = self.expects(round_, attempt, device, sender)
        reply = self.unseal(opened.plan, device, sealed)
        with self._changed:
            if self._open is not opened:
                raise NotWantedError(f"round {round_}, attempt {attempt} is over")
            kept = self._data.setdefault(device, reply)
            self._changed.notify_all()
        if kept is not reply and not _are_same(kept, reply):  # a receipt is for what is trained on
            raise NotWantedError(f"found other data of device {device} than those that are here already")
        plan = opened.plan.digest
        return receipt_for(round_, attempt, device, plan, sealed, self._domain).signed_by(self._account)

    def unseal(self, plan: Plan, device: int, sealed: bytes) -> DataReply:
        """Data that were sealed to this server, as a plan has them."""
        about = associated(self._domain.chain_id, plan.round, device, self._index, plan.digest)
        try:
            raw = open_sealed(sealed, bytes(self._account.key), about, self._network.devices[device].address)
            inputs, labels = read_data(raw, plan.samples[device], self._task.like.inputs.numpy())
            reply = DataReply(device, plan.round, inputs, labels)
            check_data(reply, self._task, plan.samples[device])
        except (ReplyError, GradientRefusedError) as error:
            raise NotWantedError(f"device {device}: {error}") from error
        return reply

    def decline(self, round_: int, attempt: int, device: int, sender: Address) -> None:
        """This device's data will not come."""
        self.expects(round_, attempt, device, sender)
        with self._changed:
            self._declined.add(device)
            self._changed.notify_all()

    def wait(self, devices: Collection[int], sleep: Callable[[float], None]) -> dict[int, DataReply]:
        """What has come of these, once all have come or were declined, or time is over."""
        while True:
            with self._changed:
                opened, missing = self._open, set(devices) - self._data.keys() - self._declined
                left_s = 0.0 if opened is None else opened.until_s - self._now()
                if not missing or left_s <= 0:
                    found = {device: self._data[device] for device in devices if device in self._data}
                    if opened is not None:  # who comes now is told so
                        self._open = replace(opened, until_s=min(opened.until_s, self._now()))
                    return found
            sleep(min(left_s, 0.05))


def _are_same(one: DataReply, other: DataReply) -> bool:
    return np.array_equal(one.inputs, other.inputs) and np.array_equal(one.labels, other.labels)
