"""One lab run as Algorithm 1 of the paper: for each of its lines the transaction or the log line that did it.

    bfl network lab --out LAB --set planner=a2c
    python -m benchmarks.algorithm_1 LAB [--round K]

Reads the chain of the lab's first edge and the logs of all its machines, and prints a table in Markdown. Without
`--round`: the first round after round 1, whose model nobody has to prove, in which a device handed its data to an edge
that is not its home, and another trained. What nothing did is told as missing; then the exit code is 1.
"""

import argparse
import re
from collections.abc import Iterable, Sequence
from contextlib import closing
from pathlib import Path

from bfl.errors import BflError
from bfl.network.kits import DATABASE, read_kit
from bfl.network.status import LOG
from chain.audit.archive import Archive, open_archive
from chain.audit.payloads import CheckedPayloads
from chain.protocol.posts import SignedCall, read_signed_call
from chain.protocol.turns import FOUNDING_BLOCK
from chain.wire.blocks import Block
from chain.wire.plan import Plan, read_plan
from edge_servers.founding.parameters import FoundingParameters, read_founding_parameters
from edge_servers.planning.proposal import LOCAL

MISSING = "MISSING"
_LONG_HEX = re.compile(r"0x([0-9a-f]{8})[0-9a-f]{32,}")
Row = tuple[str, str, str]
"""Numbers of lines, what they say, what did them"""


class Run:
    """A lab that has ended: its names, its logs, its chain."""

    def __init__(self, lab: Path, archive: Archive) -> None:
        self.archive = archive
        kits = [read_kit(path) for path in sorted((lab / "kits").iterdir()) if (path / "config.toml").exists()]
        self._logs = {kit.config.name: _lines(kit.folder) for kit in kits}
        self.servers = {kit.config.index: kit.config.name for kit in kits if kit.config.role == "edge"}
        self.devices = {kit.config.index: kit.config.name for kit in kits if kit.config.role == "device"}
        self.found = next(post for post in self.posts(FOUNDING_BLOCK - 1) if _kind(post) == "found")
        self.founding: FoundingParameters = read_founding_parameters(self.payload(self.found, "parameters"))
        network = self.founding.network
        self._names = {bytes(address): self.servers[m] for m, address in enumerate(network.servers)}
        self._names |= {bytes(device.address): self.devices[device.index] for device in network.devices}

    def name(self, address: bytes) -> str:
        """Of a machine; the founder is none."""
        return self._names.get(bytes(address), "the operator")

    def block(self, round_: int) -> Block:
        """Round k is block k + 1 (P1)."""
        return self.archive.block(round_ + FOUNDING_BLOCK)

    @property
    def rounds(self) -> int:
        """How many are sealed."""
        return self.archive.head().block_number - FOUNDING_BLOCK

    def posts(self, round_: int, kind: str = "") -> list[SignedCall]:
        """What a block has, but for what the registry refused."""
        block = self.block(round_)
        pairs = zip(block.transactions, block.receipts, strict=True)
        found = [read_signed_call(sent, self.archive.genesis) for sent, receipt in pairs if receipt.status == 1]
        return [post for post in found if not kind or _kind(post) == kind]

    def payload(self, post: SignedCall, argument: str = "digest") -> bytes:
        """What is beside a post, by the digest in it."""
        digest = bytes(post.call[argument]) if post.call is not None else b""
        return CheckedPayloads(self.archive).payload(digest) or b""

    def plan(self, round_: int) -> Plan:
        """As the leader posted it."""
        return read_plan(self.payload(self.posts(round_, "plan")[0]))

    def foreign(self, round_: int) -> list[int]:
        """Devices that the plan sends to an edge that is not their home, and whose own gradient is not there."""
        trained = {post.sender for post in self.posts(round_, "gradient")}
        plan, devices = self.plan(round_), self.founding.network.devices
        return [
            device.index
            for device in devices
            if plan.assignment[device.index] not in (LOCAL, device.home) and device.address not in trained
        ]

    def trained(self, round_: int) -> list[int]:
        """Devices whose own gradient is in the block."""
        trained = {post.sender for post in self.posts(round_, "gradient")}
        return [device.index for device in self.founding.network.devices if device.address in trained]

    def choose(self) -> int:
        """The first round that has both."""
        for round_ in range(2, self.rounds):
            if self.foreign(round_) and self.trained(round_):
                return round_
        raise BflError("found no round in which one device offloaded to a foreign edge and another trained")

    def post(self, post: SignedCall) -> str:
        """Hash, kind, sender and block of a transaction."""
        call = post.call
        step = f" {call['step']}" if call is not None and "step" in call else ""
        number = FOUNDING_BLOCK if call is None or "round" not in call else int(call["round"]) + FOUNDING_BLOCK
        return f"`{_short(post.transaction.hash)}` {_kind(post)}{step} of {self.name(post.sender)}, block {number}"

    def log(self, machines: str | Iterable[str], pattern: str) -> str:
        """The first line of one of these machines that says this."""
        for machine in [machines] if isinstance(machines, str) else machines:
            for line in self._logs[machine]:
                if re.search(pattern, line):
                    what = " ".join(line[20:].split())
                    return f"{machine}: `{line[11:19]} {_LONG_HEX.sub(_shortened, what)}`"
        return f"{MISSING}: no log says {pattern!r}"


def _lines(kit: Path) -> list[str]:
    paths = [path for path in (kit / f"{LOG}.{n}" for n in (3, 2, 1)) if path.exists()]
    return [line for path in [*paths, kit / LOG] for line in path.read_text(errors="replace").splitlines()]


def _shortened(found: re.Match[str]) -> str:
    return f"0x{found[1]}…"


def _short(value: bytes) -> str:
    return f"0x{bytes(value).hex()[:8]}…"


def _kind(post: SignedCall) -> str:
    return post.call.name if post.call else "creation"


def table(run: Run, round_: int) -> list[Row]:
    """Every line of Algorithm 1, in its order."""
    return [*_planned(run, round_), *_trained(run, round_), *_agreed(run, round_), *_sealed(run, round_)]


def _planned(run: Run, round_: int) -> Iterable[Row]:
    network, settings = run.founding.network, run.founding.settings
    call = run.found.call
    model = _short(bytes(call["model"])) if call is not None else MISSING
    counts = f"{len(network.servers)} edges, {len(network.devices)} devices, e_n = {settings.training.iterations}"
    yield "1", "input: N, M, e_n, e_m", f"{run.post(run.found)}: {counts}, all settings and addresses"
    yield "2", "global model w^(0)", f"the same transaction names model 0, {model}"
    yield "3, 41", "for each round k", f"rounds 1 to {run.rounds} are blocks 2 to {run.rounds + 1}; here k = {round_}"
    plan, targets = run.plan(round_), []
    for device, name in run.devices.items():
        target = plan.assignment[device]
        targets.append(f"{name} to {run.servers[target]}" if target != LOCAL else f"{name} trains itself")
    (post,) = run.posts(round_, "plan")
    planner = f"planner {settings.rounds.planner}"
    yield "4, 5", "x_{n,m,g} by Algorithm 2", f"{run.post(post)}: {planner}, {', '.join(targets)}; phi {plan.phi}"


def _trained(run: Run, round_: int) -> Iterable[Row]:
    offloaded, trained, plan = run.foreign(round_)[0], run.trained(round_)[0], run.plan(round_)
    home = run.servers[run.founding.network.devices[offloaded].home]
    says, device = run.log, run.devices[offloaded]
    handed = says(home, rf"round {round_}: handed .* of device {offloaded}, sealed")
    yield "6, 7", f"{device} offloads to a foreign edge", says(device, rf"device +round {round_}: .*handed over")
    yield "7", f"its home, {home}, relays what it cannot read", handed
    own = run.devices[trained]
    yield "8-13", f"{own} trains, eqs. 5 and 7", says(own, rf"device +round {round_}: .*trained on")
    gradients = run.posts(round_, "gradient")
    address = run.founding.network.devices[trained].address
    yield "14-16", "its gradient in a transaction", _all(run, [each for each in gradients if each.sender == address])
    target = plan.assignment[offloaded]
    server = run.servers[target]
    yield (
        "17-20",
        f"{server} trains on what it was given, eqs. 4 and 6",
        says(server, rf"edge-server +round {round_}: trained .* offloaded by"),
    )
    of_server = [each for each in gradients if each.sender == run.founding.network.servers[target]]
    yield "21, 22", "its gradient in a transaction", _all(run, of_server)


def _agreed(run: Run, round_: int) -> Iterable[Row]:
    iterates = run.posts(round_, "iterate")
    steps = [[each for each in iterates if each.call and each.call["step"] == step] for step in (0, 1)]
    phi = run.plan(round_).phi
    last = [each for each in iterates if each.call and each.call["step"] == phi]
    count = f"{len(iterates) - len(steps[0])} transactions in {phi} steps, the first ones: "
    yield "23, 24", "aggregated gradient, x^(0)", _all(run, steps[0])
    yield "25-29", "each edge sends x^(l) to its neighbours", count + _all(run, steps[1])
    yield "30-33", "x^(l+1) from what is on the ledger, up to x^(phi)", _all(run, last)
    (model,) = run.posts(round_, "model")
    yield "34, 35", "boosting, global update", f"{run.post(model)}: whoever signs the block derives it"


def _sealed(run: Run, round_: int) -> Iterable[Row]:
    header, devices, number = run.block(round_).header, run.devices.values(), round_ + FOUNDING_BLOCK
    leader, winner = run.name(header.coinbase), run.name(header.winner or b"")
    yield "36", f"the leader, {leader}, hands out block {number}", run.log(devices, rf"mining block {number} ")
    yield "37", "hash power is traded", "not yet: a device mines with its own; the trade comes with a later version"
    told = run.log(winner, rf"sealed block 0x{header.hash.hex()}")
    yield "38", f"the fastest device, {winner}, propagates it", told
    signers = {each.signer for each in run.archive.endorsements(header.hash)}
    other = next(name for name in run.servers.values() if name != leader)
    signed = f"block {number} `{_short(header.hash)}`, signed by {len(signers)} of {len(run.servers)} edges"
    yield "39", "the block is on the chain", f"{signed}; {run.log(other, rf'block {number} 0x{header.hash.hex()}')}"
    proven = rf"round {round_ + 1}: model {round_} is proven by block {number} "
    yield "40", "devices take the model from it", run.log(devices, proven)
    last = run.posts(run.rounds, "model")
    yield "42", f"final model w^({run.rounds})", _all(run, last)


def _all(run: Run, posts: Sequence[SignedCall]) -> str:
    return "; ".join(map(run.post, posts)) or MISSING


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("lab", type=Path, help="folder of `bfl network lab`")
    parser.add_argument("--round", type=int)
    options = parser.parse_args()
    with closing(open_archive(options.lab / "kits" / "edge-1" / DATABASE)) as archive:
        run = Run(options.lab, archive)
        rows = table(run, options.round or run.choose())
    print("| line | what it says | what did it |\n|---|---|---|")
    for numbers, says, did in rows:
        print(f"| {numbers} | {says} | {did} |")
    raise SystemExit(any(MISSING in did for *_, did in rows))


if __name__ == "__main__":
    main()
