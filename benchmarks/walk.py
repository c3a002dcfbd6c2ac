"""How far one thing travels through the code: a gradient, a decision, an audit replay, a start, in hops and modules.

    python -m benchmarks.walk [--tree PATH ...] [--list gradient]

Counted with `sys.setprofile` in ordinary `bfl` commands, each in a process of its own: synthetic data, 3 servers,
3 devices. Several trees give one table, `before -> after`. Only named functions of the five packages count: no lambdas,
comprehensions, class bodies, nothing that runs while a module is imported, no thread beside the main one.

- hop: a distinct pair (caller, callee) among the calls of a walk; foreign code in between is skipped.
- modules: the files that are entered.
- gradient: from the return of `local_updates` to the end of the run's only round, which seals it. A call counts if it
  is HANDED the gradient of the first device: its values, bytes (or hex) that contain them as fp16, or a container,
  iterator, dataclass or Flower message that holds one of these, alone or among others'. `self` hands nothing over, nor
  do closures and objects of plain classes, which live across rounds (style, 3). Decoded and checked: the calls of
  `view_floats` (before 0.6: `decode_floats`) and `check_gradient` among them.
- decision: in `post_plan` of round 2's leader, once it knows that it leads (`leads`), until it hands on a `Plan`.
- replay: `bfl audit check` of 2 rounds, from the first call into `chain` to the end of the last `replay_round`.
- start: from `main` to the first call into edge_servers/round.py.
"""

import argparse
import dataclasses
import inspect
import json
import os
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from itertools import takewhile
from pathlib import Path
from types import CodeType, FrameType, GeneratorType
from typing import Any

import numpy as np

PACKAGES = ("bfl", "chain", "clients", "edge_servers", "policy")
SIMULATE = ("simulate", "--dataset", "synthetic", "--edges", "3", "--devices", "3", "--rounds")
COLUMNS = ("hops", "functions", "modules", "decoded", "checked")
ENDS = ("local_updates", "post_plan", "leads", "replay_round")
"""Functions whose return begins or ends a walk."""
DEPTH = 10
Hop = tuple[str, str]
Event = tuple[str, str, str, bool]
"""call or return, the caller, the callee as module:function, and whether it is handed what the walk looks for."""


class Gradient:
    """The gradient that is followed: what the trainer returns first."""

    size, written, hex = 0, b"", ""

    def __call__(self, frame: FrameType, result: Any) -> bool:
        """Whether it is among the arguments of a call."""
        if not self.size:
            if frame.f_code.co_name == "local_updates" and result:
                self.size, self.written = result[0].values.size, as_written(result[0].values)
                self.hex = self.written.hex()
            return False
        level: list[Any] = arguments(frame)
        seen: dict[int, Any] = {}
        for _ in range(DEPTH):
            if any(self.is_it(each) for each in level):
                return True
            level = [part for each in level for part in parts(each) if id(part) not in seen]
            seen |= {id(each): each for each in level}  # kept, or another could get its id
        return False

    def is_it(self, thing: Any) -> bool:
        """Whether `thing` is the gradient in one of its forms."""
        if isinstance(thing, bytes | bytearray | memoryview):
            return self.written in bytes(thing)
        if isinstance(thing, str):
            return self.hex in thing
        is_like = isinstance(thing, np.ndarray) and thing.dtype.kind == "f" and thing.shape == (self.size,)
        return is_like and as_written(thing) == self.written


def as_written(values: Any) -> bytes:
    """Values as the chain has them by default: fp16, without -0.0."""
    with np.errstate(all="ignore"):
        return bytes((values.astype("<f2") + np.float16(0)).tobytes())


def arguments(frame: FrameType) -> list[Any]:
    """What a call is handed, without self."""
    code, found = frame.f_code, frame.f_locals
    starred = bool(code.co_flags & inspect.CO_VARARGS) + bool(code.co_flags & inspect.CO_VARKEYWORDS)
    names = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount + starred]
    return [found[name] for name in names if name in found and name not in ("self", "cls")]


def parts(whole: Any) -> Iterable[Any]:
    """What a container, iterator, dataclass or Flower message holds; iterators are not moved."""
    if isinstance(whole, list | tuple | set | frozenset | type({}.values()) | type({}.items())):
        return list(whole)
    if isinstance(whole, dict):
        return list(whole.values())
    if isinstance(whole, GeneratorType):
        return list(whole.gi_frame.f_locals.values()) if whole.gi_frame else []
    if type(whole).__module__ == "builtins" and hasattr(whole, "__next__"):
        return list(whole.__reduce__()[1])
    if dataclasses.is_dataclass(whole) and not isinstance(whole, type):
        return [getattr(whole, field.name, None) for field in dataclasses.fields(whole)]
    return list(vars(whole).values()) if type(whole).__module__.startswith("flwr.") else []


def is_handed_plan(frame: FrameType, _: Any) -> bool:
    """Whether a call is handed a plan."""
    return any(type(each).__name__ == "Plan" for each in arguments(frame))


def gradient(events: Sequence[Event]) -> list[Hop]:
    """Whoever is handed it."""
    return [(caller, callee) for kind, caller, callee, is_handed in events if kind == "call" and is_handed]


def decision(events: Sequence[Event]) -> list[Hop]:
    """The last plan that was drafted."""
    drafting: list[Hop] | None = None
    drafted: list[Hop] = []
    for kind, caller, callee, is_handed in events:
        if bare(callee) == "post_plan":
            drafting = [] if kind == "call" else None
        elif drafting is not None and kind == "return":
            drafting = [] if bare(callee) == "leads" else drafting
        elif drafting is not None and is_handed and bare(caller) == "post_plan":
            drafted, drafting = drafting, None
        elif drafting is not None:
            drafting.append((caller, callee))
    return drafted


def replay(events: Sequence[Event]) -> list[Hop]:
    """From the first look at the chain to the last round."""
    first = next((i for i, event in enumerate(events) if event[2].startswith("chain.")), 0)
    ends = [i for i, event in enumerate(events) if event[0] == "return" and bare(event[2]) == "replay_round"]
    return [event[1:3] for event in events[first : max(ends, default=0)] if event[0] == "call"]


def start(events: Sequence[Event]) -> list[Hop]:
    """Everything before the first round."""
    before = takewhile(lambda event: not event[2].startswith("edge_servers.round:"), events)
    return [event[1:3] for event in before if event[0] == "call"]


WALKS = {"gradient": gradient, "decision": decision, "replay": replay, "start": start}
FLAGS = {"gradient": ("1", "--planner", "all-local"), "decision": ("2",), "replay": ("2",), "start": ("1",)}


def bare(name: str) -> str:
    """A function's own name."""
    return name.split(":")[-1].split(".")[-1]


def profiler(tree: Path, events: list[Event], is_handed: Callable[[FrameType, Any], bool]) -> Any:
    """For `sys.setprofile`: writes down what our named functions do."""
    ours = tuple(f"{tree / package}{os.sep}" for package in PACKAGES)
    importing = 0

    def is_named(code: CodeType) -> bool:
        is_function = bool(code.co_flags & inspect.CO_OPTIMIZED)  # a class body is none
        return is_function and not code.co_name.startswith("<") and code.co_filename.startswith(ours)

    def name(frame: FrameType | None) -> str:
        while frame is not None and not is_named(frame.f_code):
            frame = frame.f_back
        if frame is None:
            return "-"
        module = Path(frame.f_code.co_filename).relative_to(tree).with_suffix("")
        return f"{'.'.join(module.parts)}:{frame.f_code.co_qualname}"

    def profile(frame: FrameType, event: str, result: Any) -> None:
        nonlocal importing
        called = frame.f_code.co_name
        if called == "<module>" and event in ("call", "return"):
            importing += 1 if event == "call" else -1
        elif not importing and (event == "call" or (event == "return" and called in ENDS)) and is_named(frame.f_code):
            events.append((event, name(frame.f_back), name(frame), is_handed(frame, result)))

    return profile


def record(walk: str, tree: Path) -> None:
    """Walk in this process, which has imported nothing yet; the hops as JSON on the last line."""
    from bfl.cli import main as run_bfl

    events: list[Event] = []
    with tempfile.TemporaryDirectory() as folder:
        command = [*SIMULATE, *FLAGS[walk], "--out", f"{folder}/run"]
        if walk == "replay":
            subprocess.run([sys.executable, "-B", "-m", "bfl", *command], check=True, stdout=subprocess.DEVNULL)
            command = ["audit", "check", f"{folder}/run"]
        sys.argv = ["bfl", *command]
        sys.setprofile(profiler(tree, events, Gradient() if walk == "gradient" else is_handed_plan))
        try:
            run_bfl()
        except SystemExit as ended:
            if ended.code:
                raise
        finally:
            sys.setprofile(None)
    print("\n" + json.dumps(WALKS[walk](events)))


def hops_of(walk: str, tree: Path) -> list[Hop]:
    """All calls of a walk through a tree, in their order."""
    command = [sys.executable, "-B", "-P", __file__, "--record", walk, "--tree", str(tree)]
    environment = os.environ | {"PYTHONPATH": str(tree), "PYTHONHASHSEED": "0"}
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run(command, cwd=folder, env=environment, stdout=subprocess.PIPE, text=True, check=True)
    hops = [(caller, callee) for caller, callee in json.loads(done.stdout.splitlines()[-1])]
    if not hops or (walk == "gradient" and "0" in handled(hops)):
        raise SystemExit(f"{tree}: found no {walk}, or only a part; was a function renamed that its definition names?")
    return hops


def counts(walk: str, hops: Sequence[Hop]) -> list[str]:
    """The numbers of a walk, in the order of `COLUMNS`."""
    functions = {callee for _, callee in hops}
    modules = {callee.split(":")[0] for callee in functions}
    last = handled(hops) if walk == "gradient" else ["", ""]
    return [*map(str, (len(set(hops)), len(functions), len(modules))), *last]


def handled(hops: Sequence[Hop]) -> list[str]:
    """How often a gradient is decoded and checked."""
    calls = Counter(bare(callee) for _, callee in hops)
    return [str(calls["view_floats"] or calls["decode_floats"]), str(calls["check_gradient"])]


def show(walk: str, hops: Sequence[Hop]) -> None:
    """The hops of a walk in the order in which they are first made, with the calls of each."""
    for number, ((caller, callee), calls) in enumerate(Counter(hops).items(), 1):
        print(f"{number:4} {callee} <- {caller}" + (f" x{calls}" if calls > 1 else ""))
    print(", ".join(f"{what} {number}" for what, number in zip(COLUMNS, counts(walk, hops), strict=True) if number))


def main() -> None:
    """Print the table, or one walk."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tree", type=Path, action="append", help="a checkout; may be repeated (default: this one)")
    parser.add_argument("--list", choices=WALKS, help="show every hop of this walk instead")
    parser.add_argument("--record", choices=WALKS, help=argparse.SUPPRESS)
    options = parser.parse_args()
    trees = [tree.resolve() for tree in options.tree or [Path(__file__).parents[1]]]
    if options.record:
        record(options.record, trees[0])
        return
    print(*trees, sep=" -> ", end="\n\n", flush=True)
    if options.list:
        for tree in trees:
            show(options.list, hops_of(options.list, tree))
        return
    print(f"| walk | {' | '.join(COLUMNS)} |\n|---|" + "---|" * len(COLUMNS))
    for walk in WALKS:
        found = zip(*(counts(walk, hops_of(walk, tree)) for tree in trees), strict=True)
        print(f"| {walk} | {' | '.join(' -> '.join(cell) if any(cell) else '' for cell in found)} |", flush=True)


if __name__ == "__main__":
    main()
