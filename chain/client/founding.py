"""Founding a network (P2): the registry, its participants, the parameters and model 0, on any chain."""

from collections.abc import Mapping
from dataclasses import dataclass

from eth_account.signers.local import LocalAccount

from chain.client.access import Access, ChainAccess, EmptyChain
from chain.client.keys import address_of
from chain.errors import ContractError, WorkError
from chain.protocol.contract import PayloadSizes, RegistryTerms, call_gas, deployment, encode_call
from chain.wire.seal import find_nonce
from chain.wire.sidecar import Sidecar

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
    sizes: PayloadSizes
    """How large the payloads of a round are (B2)."""
    terms: RegistryTerms = RegistryTerms()


def found_network(chain: EmptyChain[Access], founder: LocalAccount, founding: Founding) -> Access:
    """Post the founding, and on our own chain seal it as block 1; returns the chain with its registry."""
    if len(founding.model) != founding.sizes.model:
        raise ContractError(f"model 0 has {len(founding.model)} bytes, models are founded with {founding.sizes.model}")
    creation = deployment(founding.terms)
    access = chain.create_registry(founder, creation, not founding.terms.contract_seal, _DEADLINE_S)
    _register(access, founder, founding.homes)
    _post_founding(access, founder, founding)
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


def _post_founding(access: ChainAccess, founder: LocalAccount, founding: Founding) -> None:
    parameters, model = Sidecar(founding.parameters), Sidecar(founding.model)
    data = encode_call("found", parameters.digest, len(founding.parameters), model.digest, founding.sizes)
    access.send(founder, data, call_gas(len(data), access.is_embedded), _DEADLINE_S, (parameters, model))


def _seal_founding(access: ChainAccess, founder: LocalAccount) -> None:
    """Nobody is registered before this block: its founder seals it, without a winner."""
    access.propose(address_of(founder))
    header = access.work(b"")
    nonce = find_nonce(header.mining_hash, header.difficulty)
    if nonce is None:
        raise WorkError(f"no nonce was found for difficulty {header.difficulty}")
    access.submit_work(header.mining_hash, nonce, b"")
