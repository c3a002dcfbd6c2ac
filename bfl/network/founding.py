"""The founding of a network that was described: its genesis, who takes part, and the founding block."""

import secrets
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from eth_account.signers.local import LocalAccount

from bfl.network.description import Description
from chain.client.founding import Founding, found_network
from chain.node.access import EmptyNode
from chain.node.node import Node
from chain.protocol.genesis import FIXED, RETARGET, Genesis, block_gas
from chain.wire.address import Address
from clients.data import load_dataset
from clients.models import network_for, to_vector
from clients.partition import partition
from edge_servers.chain_hosting import homes_of
from edge_servers.federation import make_network
from edge_servers.founding.parameters import FoundingParameters, registry_terms, tensors_of
from edge_servers.replay.replay import model_payload

_CALLS_OF_AN_EDGE, _CALLS_OF_A_DEVICE, _OTHER_CALLS = 32, 2, 8
"""In one block, at most: posts, endorsements, flags"""


class Keys(Protocol):
    """The keys of everybody, by role (founder, server, device) and number."""

    def account(self, role: str, index: int) -> LocalAccount:
        """One of them."""

    def address(self, role: str, index: int) -> Address:
        """What it signs for."""


@dataclass(frozen=True)
class Founded:
    """A network that exists."""

    genesis: Genesis
    parameters: FoundingParameters
    block_hash: bytes
    """Of the founding block: whoever knows it knows the network."""


def found_described(description: Description, keys: Keys, database: Path, now_s: float) -> Founded:
    """Found it on a new database, with which every node of the network begins."""
    settings = description.settings
    dataset = load_dataset(settings.data.dataset, settings.data.data_dir, settings.data.seed)
    shares = partition(dataset.train.labels.numpy(), settings.data, dataset.labels_per_device)
    architecture = network_for(dataset, settings.training, settings.data.seed)
    introduced = [
        (len(share), description.consent(each)) for share, each in zip(shares, description.devices, strict=True)
    ]
    homes = [description.edge_index(device.home) for device in description.devices]
    network = make_network(introduced, settings, keys, homes)
    parameters = FoundingParameters(settings, network, tensors_of(architecture), dataset.train.sample_bytes)
    genesis = _genesis(description, keys.address("founder", 0), now_s)
    posts = Founding(
        homes_of(network),
        parameters.encode(),
        model_payload(to_vector(architecture), parameters),
        parameters.payload_sizes,
        registry_terms(settings.rounds),
    )
    node = Node.create(database, genesis)
    try:
        found_network(EmptyNode(node), keys.account("founder", 0), posts)
        return Founded(genesis, parameters, node.head.hash)
    finally:
        node.close()


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
