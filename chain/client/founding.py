"""Founding a network (P2): the registry, its participants, the parameters and model 0, through any web3."""

from collections.abc import Mapping
from dataclasses import dataclass

from eth_account.signers.local import LocalAccount
from eth_hash.auto import keccak
from web3 import Web3

from chain.client.connection import Connection, deploy
from chain.client.keys import address_of
from chain.errors import WorkError
from chain.protocol import contract
from chain.protocol.contract import RegistryTerms, call_gas, deployment, encode_call
from chain.protocol.genesis import FOUNDING_GAS
from chain.protocol.slots import Slot
from chain.wire.headers import Header
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
    """Canonical JSON."""
    model: bytes
    """Model 0, encoded."""
    payload_bytes: int
    """The largest payload a post of a round will have."""
    terms: RegistryTerms = RegistryTerms()


def found_network(web3: Web3, founder: LocalAccount, founding: Founding) -> Connection:
    """Post the founding, and on our own chain seal it as block 1; returns the connection to the new registry."""
    is_embedded = not founding.terms.contract_seal
    creation = deployment(founding.payload_bytes, founding.terms)
    registry = deploy(web3, founder, creation, _creation_gas(web3, is_embedded), is_embedded, _DEADLINE_S)
    connection = Connection(web3, registry)
    _register(connection, founder, founding.homes)
    _post_model(connection, founder, founding)
    if is_embedded:
        _seal_founding(connection, founder)
    return connection


def _creation_gas(web3: Web3, is_embedded: bool) -> int:
    return FOUNDING_GAS // 2 if is_embedded else min(FOUNDING_GAS // 2, int(web3.eth.get_block("latest")["gasLimit"]))


def _register(connection: Connection, founder: LocalAccount, homes: Mapping[bytes, bytes]) -> None:
    """Servers first: a device's home must be registered before it."""
    ordered = sorted(homes, key=lambda who: (homes[who] != who, who))
    for start in range(0, len(ordered), _BATCH):
        batch = ordered[start : start + _BATCH]
        data = encode_call("register", batch, [homes[who] for who in batch])
        connection.send(founder, data, 500_000 + len(batch) * _GAS_PER_REGISTRATION, _DEADLINE_S)


def _post_model(connection: Connection, founder: LocalAccount, founding: Founding) -> None:
    limit = connection.settings.payload_bytes if connection.is_embedded else contract.CHUNK_BYTES
    whole, chunks = founding.model, 0
    if len(whole) > limit:
        parts = contract.split_payload(whole)
        for index, part in enumerate(parts):
            _send(connection, founder, encode_call("chunk", 0, Slot.MODEL, index, part))
        whole, chunks = b"", len(parts)
    _send(connection, founder, encode_call("found", founding.parameters, keccak(founding.model), chunks, whole))


def _send(connection: Connection, founder: LocalAccount, data: bytes) -> None:
    gas = call_gas(len(data), connection.settings.payload_bytes, connection.is_embedded)
    connection.send(founder, data, gas, _DEADLINE_S)


def _seal_founding(connection: Connection, founder: LocalAccount) -> None:
    """Nobody is registered before this block: its founder seals it, without a winner."""
    connection.request("bfl_propose", Web3.to_hex(address_of(founder)))
    header = Header.from_bytes(connection.request_bytes("bfl_getWork", "0x"))
    nonce = find_nonce(header.mining_hash, header.difficulty)
    if nonce is None:
        raise WorkError(f"no nonce was found for difficulty {header.difficulty}")
    connection.request("bfl_submitWork", Web3.to_hex(header.mining_hash), Web3.to_hex(nonce), "0x")
