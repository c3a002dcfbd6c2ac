"""Keys and a clock that are simulated (P3), and how anybody tells: they follow from what the founding block says."""

import hashlib
from functools import cached_property

from eth_account.signers.local import LocalAccount

from chain.client.keys import address_of, simulated_account
from chain.protocol.genesis import Genesis
from chain.wire.documents import canonical_json
from edge_servers.founding.parameters import FoundingParameters, Tensors, founding_settings
from edge_servers.parameters import Settings

START_S = 1_700_000_000
"""When simulated networks are founded."""


class SimulatedKeys:
    """The keys of a simulated network: whoever knows its settings and the form of its model has them all."""

    def __init__(self, settings: Settings, tensors: Tensors) -> None:
        self._settings, self._tensors = settings, tensors

    @cached_property
    def network(self) -> bytes:
        """Names the network; two that differ in anything share no key."""
        content = {"settings": founding_settings(self._settings), "tensors": self._tensors}
        return hashlib.sha256(canonical_json(content)).digest()

    def account(self, role: str, index: int) -> LocalAccount:
        """The key of server m, device n or founder 0."""
        return simulated_account(self.network, f"{role} {index}")


def what_is_simulated(founding: FoundingParameters, genesis: Genesis) -> str:
    """Whether keys and clock of a chain are simulated, in words; empty where nothing shows that they are."""
    keys, network = SimulatedKeys(founding.settings, founding.tensors), founding.network
    found = [("founder", 0, genesis.founder_address)]
    found += [("server", m, address) for m, address in enumerate(network.servers)]
    found += [("device", device.index, device.address) for device in network.devices]
    known = sum(address_of(keys.account(role, index)) == address for role, index, address in found)
    part = "" if known == len(found) else f" ({known} of {len(found)})"
    told = [f"keys{part}"] * (known > 0) + ["clock"] * (genesis.timestamp == START_S)
    return f"simulated {' and '.join(told)}" if told else ""
