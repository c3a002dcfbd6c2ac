"""Founding a network (P2): the registry, its participants, the parameters and model 0, on any chain."""

from collections.abc import Mapping
from dataclasses import dataclass

from eth_account.signers.local import LocalAccount
from eth_hash.auto import keccak

from chain.client.access import Access, ChainAccess, EmptyChain
from chain.client.keys import address_of
from chain.errors import WorkError
from chain.protocol import contract
from chain.protocol.contract import RegistryTerms, call_gas, deployment, encode_call
from chain.protocol.slots import Slot
from chain.wire.seal import find_nonce

_BATCH = 64
_GAS_PER_REGISTRATION = 60_000
_DEADLINE_S = 120.0


@dataclass(frozen=True)
class Founding:
    """What the founding block says."""

    homes: Mapping[bytes, bytes]
    """Home server of every participant; a server's is itself."""
    parameters: bytes
    """The founding parameters, canonical JSON."""
    model: bytes
    """Model 0, encoded."""
    payload_bytes: int
    """The largest payload a post of a round will have."""
    terms: RegistryTerms = RegistryTerms()


def found_network(chain: EmptyChain[Access], founder: LocalAccount, founding: Founding) -> Access:
    """Post the founding, and on our own chain seal it as block 1; returns the chain with its registry."""
    creation = deployment(founding.payload_bytes, founding.terms)
    access = chain.create_registry(founder, creation, not founding.terms.contract_seal, _DEADLINE_S)
    _register(access, founder, founding.homes)
    _post_model(access, founder, founding)
    if access.is_embedded:
        _seal_founding(access, founder)
    return access


def _register(access: ChainAccess, founder: LocalAccount, homes: Mapping[bytes, bytes]) -> None:
    """Servers first: a device's home must be registered before it."""
    ordered = sorted(homes, key=lambda who: (homes[who] != who, who))
    for start in range(0, len(ordered), _BATCH):
        batch = ordered[start : start + _BATCH]
        data = encode_call("register", batch, [homes[who] for who in batch])
        access.send(founder, data, 500_000 + len(batch) * _GAS_PER_REGISTRATION, _DEADLINE_S)


def _post_model(access: ChainAccess, founder: LocalAccount, founding: Founding) -> None:
    limit = access.settings.payload_bytes if access.is_embedded else contract.CHUNK_BYTES
    whole, chunks = founding.model, 0
    if len(whole) > limit:
        parts = contract.split_payload(whole)
        for index, part in enumerate(parts):
            _send(access, founder, encode_call("chunk", 0, Slot.MODEL, index, part))
        whole, chunks = b"", len(parts)
    _send(access, founder, encode_call("found", founding.parameters, keccak(founding.model), chunks, whole))


def _send(access: ChainAccess, founder: LocalAccount, data: bytes) -> None:
    gas = call_gas(len(data), access.settings.payload_bytes, access.is_embedded)
    access.send(founder, data, gas, _DEADLINE_S)


def _seal_founding(access: ChainAccess, founder: LocalAccount) -> None:
    """Nobody is registered before this block: its founder seals it, without a winner."""
    access.propose(address_of(founder))
    header = access.work(b"")
    nonce = find_nonce(header.mining_hash, header.difficulty)
    if nonce is None:
        raise WorkError(f"no nonce was found for difficulty {header.difficulty}")
    access.submit_work(header.mining_hash, nonce, b"")
