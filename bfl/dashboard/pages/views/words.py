"""What the words on the page mean, for somebody who has not read the paper."""

TERMS = {
    "learn": "Learning: the time that all devices and servers together need to hand over samples, to train on "
    "them, and to upload gradients. It is a sum over everybody (eq. 24), not the time of the slowest.",
    "consensus": "Consensus: the steps in which servers tell each other their sums until all have one (eqs. 25, 26).",
    "mine": "Mining: the search for the seal of the block, and its way to everybody; a sum over all devices (eq. 27).",
    "T": "The system latency of the paper: learning, consensus and mining together (eq. 28).",
    "T_wall": "What a clock on the wall would show: devices work side by side, and the first seal counts.",
}
TERM_NAMES = {
    "learn": "learning",
    "consensus": "consensus",
    "mine": "mining",
    "T": "together",
    "T_wall": "clock on the wall",
}
LATENCIES = {
    "paper": "simulated seconds, with the constants of the paper that the planner was trained with",
    "real": "simulated seconds, with this run's model size, block size, graph and steps of consensus",
    "measured": "seconds that the machines of this network really took, phase by phase",
}
PHASES = {
    "plan": "the leader decides who trains where",
    "train": "devices train, or servers for them",
    "close": "the leader lists which gradients count",
    "gossip": "servers exchange their sums, step by step",
    "verify": "everybody computes the others' posts again",
    "model": "the new model is derived and posted",
    "seal": "the block is sealed and checked",
    "evaluate": "the model is tried on test data; no part of the protocol",
}
REASONS = {
    "late": "came after the deadline of the plan",
    "unreachable": "could not be reached",
    "failed": "said that it could not do it",
    "malformed": "has not the form that was agreed",
    "forged": "was signed by somebody else",
    "unsigned": "had no signature",
    "stale": "was made from another model or plan than this round's",
    "wrong-weight": "claims another number of samples or iterations than the plan gives it",
    "not-finite": "has values that are no numbers",
    "out-of-bounds": "has values larger than any honest gradient can have",
    "unavailable": "was signed, but never handed over",
    "refused-by-ledger": "was not taken by the ledger",
    "norm-clip": "was left out by the filter",
    "krum": "was left out by the filter: too unlike the others",
    "loss": "was left out by the filter: it makes the model worse",
}
OFFENCES = {
    "iterate": (
        "wrong iterate",
        "A server told its neighbours another sum than follows from what it had received. Had nobody noticed, a wrong "
        "model would have spread. Every other server can compute what it should have posted, and used the right value.",
    ),
    "close": (
        "incomplete list",
        "A leader left gradients out of the list of those that count, though they had arrived in time and were right. "
        "So some devices' work would have been for nothing.",
    ),
    "plan": ("wrong plan", "A leader planned what the rules do not allow, such as work against a device's consent."),
    "model": (
        "wrong model",
        "A leader posted another model than follows from the round. No honest server signs a block with it.",
    ),
    "gradient": ("wrong gradient", "A gradient that cannot be what it claims to be."),
    "roll": ("wrong roll", "A server's list of what it had received does not fit what was sent to it."),
    "equivocation": (
        "two words for one",
        "It signed two different posts for the same place: it told some one thing, and others another.",
    ),
    "double_endorsement": (
        "signed two blocks",
        "It endorsed two different blocks of the same attempt. Whoever does that could make two histories final.",
    ),
    "double_pass": ("two passes", "It signed two statements about the same attempt that contradict each other."),
    "broken_pass": ("hidden signature", "It passed on an attempt and hid that it had endorsed a block of it."),
}
STATUS = {
    "waiting": ("waiting", "calm", "No round is finished yet."),
    "running": ("running", "good", "Rounds are being added."),
    "finished": ("finished", "done", "All planned rounds are done."),
    "interrupted": ("interrupted", "warn", "It ended before its last round; `--resume` goes on."),
    "paused": ("paused", "warn", "Nothing new for a while."),
    "unreachable": ("unreachable", "warn", "What is shown here cannot be read at the moment."),
    "diverged": ("diverged", "warn", "The model left the range of numbers: training failed."),
}
SOURCES = {
    "metrics": "the run's own record; no block says so",
    "chain": "flags of servers, sealed in the block",
    "audit": "derived again on this machine by the audit",
}
CHECKS = (
    "every block names the one before it, and carries the work of its seal",
    "every post is signed by a registered participant whose turn it was",
    "every payload has the fingerprint that was signed",
    "every block is executed again; accounts and receipts follow from the posts",
    "every server's sums are computed again, every step, bit for bit",
    "every model follows from the listed gradients and the model before, bit for bit",
    "every flag is looked at: whether the accused was wrong, or the accuser",
)
SIMULATED = (
    "Keys, clock, channels and hash rates are simulated: the numbers follow from the settings, but anybody with the "
    "same settings can make the same chain. It proves how it was computed, not who computed it."
)


def offence_name(kind: str) -> str:
    """A kind of offence in two or three words."""
    return OFFENCES[kind][0] if kind in OFFENCES else kind.replace("_", " ").replace("-", " ") or "unnamed"


def offence_meaning(kind: str) -> str:
    """What it means; a general sentence for kinds that this page does not know."""
    return (
        OFFENCES[kind][1]
        if kind in OFFENCES
        else "Something that the rules do not allow, in the words of who found it."
    )


def reason_meaning(reason: str) -> str:
    """Why a gradient did not count; empty for reasons that this page does not know."""
    return REASONS.get(reason, "")
