"""Payloads that were pruned, brought back from a node that keeps them all (B6)."""

from rich.console import Console
from rich.progress import Progress
from web3 import Web3

from chain.client.asking import ranges_of
from chain.client.payloads import fetch_payload
from chain.store.store import Store


def fetch_payloads(store: Store, web3: Web3, console: Console) -> tuple[int, int]:
    """Fetch what blocks of this chain keep and is not here; returns how many came, and how many the node has not."""
    missing = {each.digest: each for number in store.pruned() for each in store.missing(number)}
    fetched = 0
    with Progress(console=console, transient=True, disable=not console.is_terminal) as progress:
        task = progress.add_task("fetching payloads", total=len(missing))
        for digest, kept in missing.items():
            payload = fetch_payload(digest, ranges_of(web3), kept.size)
            if payload is not None:
                with store.transaction():
                    store.payloads.put(digest, payload)
                fetched += 1
            progress.advance(task)
    return fetched, len(missing) - fetched
