"""The words of an audit, one line each: `--explain` shows those that were used."""

import re

from rich.table import Table
from rich.text import Text

WORDS = {
    "absent": "posted nothing in its time: a crash is no lie, the others compute what is missing",
    "accepted": "the registry took the post (status 1); what it did not take is reverted and says nothing",
    "aggregate": "the weighted sum of the gradients that a server received (eq. 8), where gossip starts",
    "attempt": "a round is tried until a block of it is final: 0 by the first in rank, 1 by the next, and so on",
    "believed": "taken as somebody says it is, because nobody here can derive or count it",
    "block": "what a round leaves on the chain: a header and its posts; round k is block k + 1",
    "clipped": "a gradient that was longer than the filter allows and was shortened",
    "closed": "the leader's signed list of the gradients that count in a round, and why others do not",
    "derived again": "computed here from the posts, bit for bit; nobody's word is in it",
    "difficulty": "how many hashes a seal takes on average",
    "digest": "sha256 of a payload: other bytes have another digest",
    "endorsed": "servers have signed that they checked a block",
    "eq. 8": "the paper's rule for an aggregate: gradients weighted by samples over iterations, added up",
    "eq. 9": "the paper's rule for a step of gossip: a server moves towards its neighbours' last posts",
    "events": "what the registry says to a post that it accepts; part of the receipt",
    "excluded": "may not post for some rounds, because a majority of the servers flagged it",
    "executed": "the registry's code was run here on every post of a block",
    "false flag": "what was flagged is right: look at the accusers",
    "final": "signed by more than half of all servers: no honest node leaves it",
    "flag": "a server's signed statement that somebody's post is wrong, or that it signed two things",
    "gas": "how much work a post was to execute; there is no money on this chain",
    "genesis": "block 0: the rules of the network; its hash names the network",
    "gradient": "what a device or server learned in a round, signed by it",
    "head": "the last block",
    "iterate": "what a server posts after a step of gossip between the servers (eq. 9)",
    "latency": "simulated seconds; T: learning and mining of all devices, and consensus; T_wall: as a clock would show",
    "leader": "the server whose turn it was to plan, close and publish",
    "keys": "with them participants sign; whoever has one can sign in its owner's name",
    "link": "every header names the hash of the one before it",
    "misbehaved": "did something wrong that was derived here: a wrong post, two signatures, a false flag, an omission",
    "offloaded": "a device gave its samples to a server, which trained for it",
    "passed over": "a leader whose attempt a majority of the servers gave up, for whatever reason",
    "payload": "a gradient, plan, list or model: it lies beside the chain, a post names its digest",
    "phi": "how many steps the servers gossip",
    "post": "a signed transaction of a participant to the registry",
    "pruned": "payloads that were deleted here to save space; digests and signatures are left",
    "receipt": "what came of a post by the registry: status, gas, events",
    "registry": "the contract that says who may post what, and when",
    "repaired": "everybody went on with the right value, which anybody can compute",
    "reverted": "the registry did not take the post; it is in the block and says nothing",
    "role": "who may post what: devices gradients, servers the rest",
    "seal": "a nonce that solves the puzzle of a header: work that was done for exactly this block",
    "set aside": "takes no part for some rounds, because the filter took its gradients out too often: no offence",
    "signature": "proves that the key of an address signed exactly these bytes",
    "simulated": "keys and times follow from the settings: the numbers follow, but anybody could have signed",
    "state root": "one hash over all that the registry remembers after a block",
    "turn": "who may lead an attempt: ranked by the last block's winner and hash, one after the other",
    "virtual": "an excluded server: everybody computes its iterates",
}  # fmt: skip


def glossary_table(shown: str) -> Table | None:
    """The words that occur in a text, explained; None where it has none of them."""
    plain = " ".join(shown.lower().split())
    used = {word: told for word, told in WORDS.items() if re.search(rf"\b{word}(e?s|d)?\b", plain)}
    if not used:
        return None
    table = Table(title="words", title_justify="left", show_header=False)
    for word, told in used.items():
        table.add_row(word, Text(told))
    return table
