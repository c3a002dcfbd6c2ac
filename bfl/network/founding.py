"""The founding of a network that was described: its genesis, who takes part, and the founding block."""

import secrets
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, fields
from pathlib import Path

from eth_account.signers.local import LocalAccount

from bfl.errors import BflError
from bfl.network.description import Description
from chain.audit.archive import open_archive
from chain.client.founding import Founding, found_network
from chain.client.keys import address_of
from chain.errors import ChainError
from chain.node.access import EmptyNode
from chain.node.node import Node
from chain.protocol.genesis import FIXED, RETARGET, Genesis, block_gas
from chain.wire.address import Address
from clients.data import dataset_of
from clients.joined import Joined
from clients.models import Vector, network_for, to_vector
from clients.orders import vector_digest
from clients.parameters import DataParams, TrainingParams, key_of
from clients.partition import shares_of
from clients.root_set import KEY, verdicts_in
from edge_servers.chain_hosting import homes_of
from edge_servers.errors import EdgeError
from edge_servers.federation import make_network
from edge_servers.founding.origin import Origin
from edge_servers.founding.parameters import FoundingParameters, Tensors, registry_terms, tensors_of
from edge_servers.learning.jury import jury_of
from edge_servers.parameters import Settings
from edge_servers.replay.continued import last_model
from edge_servers.replay.replay import model_payload

_CALLS_OF_AN_EDGE, _CALLS_OF_A_DEVICE, _OTHER_CALLS = 32, 2, 8
"""In one block, at most: posts, endorsements, flags"""


@dataclass(frozen=True)
class Founded:
    """A network that exists."""

    genesis: Genesis
    parameters: FoundingParameters
    block_hash: bytes
    """Of the founding block: whoever knows it knows the network."""
    model_digest: str
    """sha256 of model 0's values."""

    @property
    def beginning(self) -> list[str]:
        """Where model 0 came from, if from another chain: a line for people."""
        return [] if self.parameters.origin is None else [f"model 0 is {self.parameters.origin}"]

    def joined(self, server_keys: Sequence[str]) -> Joined:
        """What its devices are told."""
        settings, parameters = self.parameters.settings, self.parameters
        flat = settings.flat()
        told = [key_of(each.name) for kind in (DataParams, TrainingParams) for each in fields(kind)]
        return Joined(
            self.genesis,
            tuple(map(str, parameters.network.servers)),
            tuple(server_keys),
            "0x" + self.block_hash.hex(),
            self.model_digest,
            parameters.sizes,
            parameters.work,
            {key: flat[key] for key in told} | _root_told(settings),
        )


@dataclass(frozen=True)
class Members:
    """Whose addresses take part, by the names of their machines, and how many samples each device has."""

    addresses: Mapping[str, Address]
    samples: Mapping[str, int]


def _root_told(settings: Settings) -> dict[str, object]:
    """What devices need to know which images are nobody's: their part of the data set is without those."""
    return (
        {"filter": "+".join(verdicts_in(settings.rounds.filter)), KEY: settings.root_set} if settings.root_set else {}
    )


def samples_described(description: Description) -> dict[str, int]:
    """How many samples each device has, where its data is at hand: in its own folder, or its part of the data set."""
    data = description.settings.data
    whole = dataset_of(data)
    shares = shares_of(whole, data, description.settings.root_set)
    return {
        device.name: len(dataset_of(data, device.data).train) if device.data else len(share)
        for device, share in zip(description.devices, shares, strict=True)
    }


def found_described(
    description: Description,
    members: Members,
    founder: LocalAccount,
    database: Path,
    now_s: float,
    before: Path | None = None,
) -> Founded:
    """Found it on a new database, with which every node of the network begins. `before`: the chain of the network that
    it takes the place of; its last final model is model 0.
    """
    settings = description.settings
    dataset = dataset_of(settings.data)
    architecture = network_for(dataset, settings.training, settings.data.seed)
    introduced = [(members.samples[each.name], description.consent(each)) for each in description.devices]
    homes = [description.edge_index(device.home) for device in description.devices]
    beside = [description.standby_of(device) for device in description.devices]
    standbys = [None if edge is None else description.edge_index(edge.name) for edge in beside]
    network = make_network(introduced, settings, _Addresses(description, members), homes, standbys)
    origin, first = None, to_vector(architecture)
    if before is not None:
        origin, first = _model_of(before, tensors_of(architecture))
    jury = jury_of(dataset, settings, architecture)
    root = "" if jury is None else jury.digest
    parameters = FoundingParameters(
        settings, network, tensors_of(architecture), dataset.train.sample_bytes, origin, root=root
    )
    genesis = _genesis(description, address_of(founder), now_s)
    posts = Founding(
        homes_of(network),
        parameters.encode(),
        model_payload(first, parameters),
        parameters.payload_sizes,
        registry_terms(settings.rounds),
    )
    node = Node.create(database, genesis)
    try:
        found_network(EmptyNode(node), founder, posts)
        return Founded(genesis, parameters, node.head.hash, vector_digest(first))
    finally:
        node.close()


def _model_of(before: Path, tensors: Tensors) -> tuple[Origin, Vector]:
    try:
        with closing(open_archive(before)) as archive:
            return last_model(archive, tensors)
    except (ChainError, EdgeError) as error:
        raise BflError(f"{before} cannot be continued: {error}") from error


@dataclass(frozen=True)
class _Addresses:
    """By role and number, as a network is put together."""

    description: Description
    members: Members

    def address(self, role: str, index: int) -> Address:
        """Of a server or a device."""
        machines = self.description.edges if role == "server" else self.description.devices
        return self.members.addresses[machines[index].name]


def _genesis(description: Description, founder: Address, now_s: float) -> Genesis:
    edges, devices, chain = len(description.edges), len(description.devices), description.chain
    return Genesis(
        chain_id=secrets.randbelow(2**31) + 2**16,
        founder=str(founder),
        timestamp=int(now_s),
        gas_limit=block_gas(_CALLS_OF_A_DEVICE * devices + _CALLS_OF_AN_EDGE * edges + _OTHER_CALLS),
        difficulty=chain.difficulty,
        difficulty_rule=RETARGET if chain.retarget else FIXED,
        block_s=chain.block_s,
    )
