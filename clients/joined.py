"""What a device's kit says of its network (`founding.json`, D6): with it, it knows its chain without asking anybody."""

import json
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from eth_account.signers.local import LocalAccount
from pydantic import ConfigDict

from chain.client.keys import address_of_key
from chain.errors import ChainError, CodecError
from chain.protocol.genesis import Genesis
from chain.wire.address import Address
from chain.wire.documents import read_record
from clients.consent import Consent
from clients.data import dataset_of
from clients.device import Device
from clients.errors import ClientError, WalletError
from clients.founded_work import FoundedWork
from clients.models import network_for
from clients.order_check import SignedPlan
from clients.parameters import DataParams, TrainingParams, read_params
from clients.partition import shares_of
from clients.plugins import foreign_plugins, permit
from clients.root_set import held_back
from clients.wallet import KnownChain, Wallet
from clients.wallet_memory import Start
from policy.files import read_bounded

_MOST_BYTES = 16 << 20


@dataclass(frozen=True)
class Joined:
    """A network as one of its devices knows it."""

    __pydantic_config__ = ConfigDict(extra="forbid")

    genesis: Genesis
    servers: tuple[str, ...]
    """Addresses."""
    server_keys: tuple[str, ...]
    """Public keys, in hex, of the same servers: data that are offloaded are sealed to them (D7). None where all servers
    are of one process.
    """
    founding_block: str
    model_digest: str
    """sha256 of model 0's values."""
    sizes: tuple[int, ...]
    work: FoundedWork
    settings: Mapping[str, str | int | float]
    """Of data and training."""

    @property
    def chain(self) -> KnownChain:
        """What its wallet is made with."""
        servers = [Address(each) for each in self.servers]
        keys = tuple(bytes.fromhex(each) for each in self.server_keys)
        if keys and [address_of_key(key) for key in keys] != servers:
            raise CodecError("found public keys that are not those of its servers")
        block = bytes.fromhex(self.founding_block.removeprefix("0x"))
        known = frozenset[bytes](servers)
        return KnownChain(self.genesis, known, block, self.model_digest, self.sizes, self.work, keys)

    def to_json(self) -> str:
        """As the kit has it."""
        return json.dumps(asdict(self), indent=1)


def read_joined(path: Path) -> Joined:
    """What a kit says; `WalletError` names what is wrong with it."""
    try:
        return read_record(Joined, read_bounded(path, _MOST_BYTES))
    except (OSError, ChainError) as error:
        raise WalletError(f"{path} does not say what this network was founded with: {error}") from error


@dataclass(frozen=True)
class OwnChoice:
    """What a device's owner decides, whatever a network was founded with."""

    consent: Consent = Consent()
    data_dir: str = ""
    """A folder with its own data; empty: its part of the network's data set."""
    allows_plugins: bool = False
    """Whether it loads code that the founding names (Q4)."""


def open_device(
    joined: Joined,
    index: int,
    account: LocalAccount,
    choice: OwnChoice,
    memory: Path,
    lost: Start | None = None,
    on_plan: Callable[[SignedPlan], None] = lambda _: None,
) -> tuple[Device, TrainingParams]:
    """The device of a kit, with its data and its key. `lost`: where its memory was lost (D5); `on_plan` hears the plan
    of each order that it accepts.
    """
    if not joined.server_keys:
        raise ClientError("the kit names no public keys of servers: data that are offloaded could not be sealed")
    named = foreign_plugins(joined.settings)
    if named and not choice.allows_plugins:
        key, name = next(iter(named.items()))
        raise ClientError(
            f"the network was founded with {key} = {name!r:.200}, code to run on this device; its owner may allow that "
            "with allow-plugins = true in the kit's config.toml"
        )
    permit(joined.settings)
    data, training = read_params(DataParams, joined.settings), read_params(TrainingParams, joined.settings)
    if not 0 <= index < len(joined.work.shares):
        raise ClientError(f"found device {index}, expected one of {len(joined.work.shares)}")
    dataset = dataset_of(data, choice.data_dir)
    share: Any = np.arange(len(dataset.train))
    if not choice.data_dir:
        share = shares_of(dataset, data, held_back(joined.settings))[index]
    registered = joined.work.shares[index]
    if len(share) != registered:
        where = choice.data_dir or "its part of the data set"
        raise ClientError(
            f"found {len(share)} samples in {where}, expected the {registered} that this device registered with: is it "
            "the right data folder?"
        )
    network = network_for(dataset, training, data.seed)
    try:
        wallet = Wallet(account, joined.chain, memory=memory, lost=lost, on_plan=on_plan)
        wallet.begin_memory()
    except (CodecError, ValueError) as error:
        raise WalletError(f"the kit's founding.json cannot be used: {error}") from error
    return Device(index, dataset.train, share, network, choice.consent, wallet), training
