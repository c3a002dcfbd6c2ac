"""A network that is founded where another one stood (P2): its model 0 is the last one there that a majority signed."""

from chain.audit.archive import Archive
from chain.audit.found import Inspection
from chain.audit.inspection import checked_block, inspect_chain
from chain.audit.payloads import CheckedPayloads
from chain.protocol.turns import FOUNDING_BLOCK
from clients.vectors import Vector
from edge_servers.errors import FederationError
from edge_servers.founding.origin import Origin
from edge_servers.founding.parameters import FoundingParameters, Tensors, read_founding_parameters
from edge_servers.replay.record import model_in, parameters_in


def last_model(archive: Archive, tensors: Tensors) -> tuple[Origin, Vector]:
    """The model of the last final round of a chain; `FederationError` where there is none, or it has another form.

    Seals, links, signatures, roles, turns and digests are checked; that it follows from its gradients is not.
    """
    found, source = inspect_chain(archive), CheckedPayloads(archive)
    founding = read_founding_parameters(parameters_in(checked_block(archive, FOUNDING_BLOCK, found), source))
    round_ = found.final - FOUNDING_BLOCK
    if round_ < 1:
        raise FederationError(
            f"found no round of chain {archive.genesis.chain_id} that a majority of its servers has signed; found the "
            "network without it"
        )
    _check_form(founding, tensors)
    block = checked_block(archive, found.final, found)
    origin = Origin(archive.genesis.chain_id, round_, block.header.hash, found.models[round_])
    return origin, model_in(block, founding, source)


def _check_form(founding: FoundingParameters, tensors: Tensors) -> None:
    if founding.tensors != tensors:
        raise FederationError(
            f"its model has {_told(founding.tensors)}, that of this network {_told(tensors)}; expected the same: data "
            "set, model and hidden of the settings make it"
        )


def _told(tensors: Tensors) -> str:
    return ", ".join(f"{name} {'x'.join(map(str, shape))}" for name, shape in tensors)


def check_origin(origin: Origin, before: Archive) -> str:
    """How a chain has the round that another one began with; `FederationError` where it has not."""
    if before.genesis.chain_id != origin.chain_id:
        raise FederationError(f"found chain {before.genesis.chain_id}, expected {origin.chain_id}: model 0 is of that")
    found, number = inspect_chain(before), origin.round + FOUNDING_BLOCK
    _check_link(origin, found, number)
    return f"it is final there ({found.final - FOUNDING_BLOCK} rounds are), and has that model"


def _check_link(origin: Origin, found: Inspection, number: int) -> None:
    has = found.hashes[number] if number < len(found.hashes) else b""
    if has != origin.block_hash:
        told = f"0x{has.hex()}" if has else "none"
        raise FederationError(f"found block {number} {told} in that chain, expected 0x{origin.block_hash.hex()}")
    if found.final < number:
        raise FederationError(f"block {number} of that chain is not signed by a majority of its servers")
    if found.models.get(origin.round) != origin.model_digest:
        raise FederationError(f"block {number} of that chain has another model than this one began with")
