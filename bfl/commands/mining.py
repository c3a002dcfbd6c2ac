"""`bfl network miner`: a device that mines for whichever node has a candidate."""

import time
from pathlib import Path
from typing import Annotated

import typer

from bfl.commands.chain import token
from bfl.commands.network import check_node_url, password_of, stop_by_signal
from bfl.commands.node import tls_files
from bfl.errors import BflError


def miner(
    node: Annotated[list[str], typer.Option(help="JSON-RPC address of a node; name them all, one --node each.")],
    key_file: Annotated[Path, typer.Option("--key", help="Key file of the device that mines.")],
    hashes_per_s: Annotated[float | None, typer.Option(min=0, help="At most so many hashes per second.")] = None,
    share_file: Annotated[
        Path | None, typer.Option(help="Where the device notes the share of it that the plan in force gives (D8).")
    ] = None,
    tls_cert: Annotated[Path | None, typer.Option(help="The device's certificate, bfl:CHAIN-ID:ADDRESS in it.")] = None,
    tls_key: Annotated[Path | None, typer.Option(help="Its key.")] = None,
    tls_ca: Annotated[Path | None, typer.Option(help="The authority of the network's certificates.")] = None,
    blocks: Annotated[int | None, typer.Option(min=1, help="End after so many blocks of its own.")] = None,
) -> None:
    """Mine blocks with a device's key. Every node is asked for work; the password comes from the terminal, or from
    BFL_KEY_PASSWORD; nodes that want a token get BFL_RPC_TOKEN.
    """
    from bfl.network.devices.mining_limit import PlannedLimit
    from chain.client.asking import web3_over_http
    from chain.client.keys import address_of, load_key
    from chain.client.tls import TlsClient
    from chain.mining.many_nodes import TIMEOUT_S, NodesMiner
    from chain.mining.miner import Miner

    for each in node:
        check_node_url(each, "--node")
    if len(set(node)) != len(node):
        raise BflError("found the same --node twice, expected each once")
    files = tls_files(tls_cert, tls_key, tls_ca)
    tls = None if files is None else TlsClient(files)
    stop = stop_by_signal()
    account = load_key(key_file, password_of(str(key_file)))
    nodes = [(url, web3_over_http(url, token(), TIMEOUT_S, tls)) for url in node]
    limit = "" if hashes_per_s is None else f", at most {hashes_per_s:g} hashes per second"
    _say(f"device {account.address} asks {len(nodes)} nodes for work{limit}. Ctrl-C stops it.")
    with Miner(hashes_per_s) as worker:
        look = _nothing if share_file is None else PlannedLimit(worker, share_file, hashes_per_s, _say).look
        with NodesMiner(nodes, address_of(account), worker, stop, _say, look=look) as running:
            sealed = running.run(blocks)
        _say(f"stopped: {sealed} blocks sealed, {worker.hashes} hashes, {worker.hash_rate:.0f} per second")


def _nothing() -> None:
    """A miner whose limit is its owner's, whatever is planned."""


def _say(line: str) -> None:
    print(f"{time.strftime('%H:%M:%S')} {line}\n", end="", flush=True)  # in one piece: its threads speak at once
