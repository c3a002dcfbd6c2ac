"""Which small faults the tests let through: mutants of what admits, decides and replays, and the table of survivors.

    python -m benchmarks.mutants [--module NAME ...] [--most 8] [--seconds 120] [--seed 0]

A mutant is one of these modules with one fault: a comparison that is off by its border (`<` and `<=`, `>` and `>=`) or
turned around (`==` and `!=`), a `not` that is gone, `and` for `or`, an integer that is one larger, a `raise` that does
not happen, a check that is not called. Texts, also f-strings, are left alone: no rule is in them.

Each is put into a copy of the tree, never into the tree itself, and the module's tests run there in a process of their
own. Killed: a test fails. Timed out: neither; a fault that hangs is noticed as well. Survived: either nobody can tell
the difference (an equivalent mutant), or a test is missing. The tests first run without a mutant; if they fail then,
nothing is said about the module.
"""

import argparse
import ast
import contextlib
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

REPOSITORY = Path(__file__).parents[1]
COPIED = ("bfl", "chain", "clients", "docs", "edge_servers", "policy", "tests")
SAID = "pytest.txt"

TESTS: dict[str, tuple[str, ...]] = {
    "chain/node/admission.py": (
        "tests/chain/node/test_import_order.py", "tests/chain/node/test_finality_bounds.py",
        "tests/chain/node/test_sidecars.py", "tests/chain/node/test_forgeries.py",
        "-k", "forged_block or lawful or founding or strangers_block or but_the_founder or successor or document",
    ),
    "chain/protocol/consensus.py": (
        "tests/chain/node/test_import_order.py", "tests/chain/protocol/test_consensus.py", "-k", "not py_evm",
    ),
    "chain/node/pool.py": ("tests/chain/node/test_pool_share.py", "tests/chain/node/test_pool.py"),
    "chain/node/finality.py": (
        "tests/chain/node/test_finality.py", "tests/chain/node/test_finality_bounds.py", "-k", "not dies",
    ),
    "chain/protocol/endorsements.py": (
        "tests/chain/protocol/test_endorsements.py", "tests/chain/node/test_finality.py", "-k", "not dies",
    ),
    "chain/audit/endorsed.py": ("tests/chain/audit/test_endorsed.py", "tests/chain/audit/test_inspection.py"),
    "chain/audit/inspection.py": (
        "tests/chain/audit/test_inspection.py", "tests/chain/audit/test_inspection_forgeries.py",
        "tests/chain/audit/test_exclusion_bounds.py",
    ),
    "chain/protocol/attempts.py": (
        "tests/chain/protocol/test_attempts.py", "tests/chain/protocol/test_attempt_model.py",
    ),
    "chain/protocol/passes.py": ("tests/chain/protocol/test_passes.py", "tests/chain/protocol/test_attempts.py"),
    "chain/protocol/proof.py": (
        "tests/chain/protocol/test_proof_bounds.py", "tests/chain/protocol/test_proof_forgeries.py",
        "tests/chain/protocol/test_proof_joined.py", "tests/chain/protocol/test_proof.py",
        "tests/chain/protocol/test_proof_json.py", "-k", "not random_json and not http",
    ),
    "edge_servers/devices/admission.py": (
        "tests/edge_servers/devices/test_admission.py", "tests/edge_servers/test_round.py",
        "tests/edge_servers/test_liars.py", "-k", "test_admission or faulty or offloaded or consent or word_counts",
    ),
    "edge_servers/learning/bounds.py": ("tests/edge_servers/learning/test_bounds.py",),
    "edge_servers/replay/record.py": (
        "tests/edge_servers/replay/test_plan_bounds.py", "tests/edge_servers/replay/test_replay.py",
        "tests/edge_servers/replay/test_gradient_reader.py",
    ),
    "edge_servers/replay/replay.py": (
        "tests/edge_servers/replay/test_replay.py", "tests/edge_servers/test_liars.py",
        "-k", "test_replay or list or verdict or offload or divergence",
    ),
    "edge_servers/ledger/referee.py": (
        "tests/edge_servers/test_leaders.py", "tests/edge_servers/ledger/test_referee.py",
        "tests/edge_servers/test_liars.py",
        "-k", "does_not_allow or wrong_model or wrong_closed or missed or one_unit or evidence or leaves or virtual",
    ),
    "clients/wallet.py": (
        "tests/clients/test_wallet_finality.py", "tests/clients/test_wallet.py", "tests/clients/test_order_check.py",
    ),
    "clients/order_check.py": (
        "tests/clients/test_order_check.py", "tests/clients/test_signed_plan.py", "tests/clients/test_lying_server.py",
    ),
}  # fmt: skip
"""Who is to catch a module's mutants, as pytest is told; what starts fastest first."""

_OPPOSITE: dict[type[ast.cmpop], tuple[type[ast.cmpop], str]] = {
    ast.Lt: (ast.LtE, "< to <="),
    ast.LtE: (ast.Lt, "<= to <"),
    ast.Gt: (ast.GtE, "> to >="),
    ast.GtE: (ast.Gt, ">= to >"),
    ast.Eq: (ast.NotEq, "== to !="),
    ast.NotEq: (ast.Eq, "!= to =="),
}


@dataclass(frozen=True)
class Mutant:
    """A source with one fault."""

    line: int
    what: str
    source: str


@dataclass
class Verdicts:
    """What became of a module's mutants."""

    made: int
    killed: int = 0
    timed_out: int = 0
    survived: list[Mutant] = field(default_factory=list)
    is_sound: bool = True
    """Whether the tests hold without a mutant."""


def mutants_of(source: str) -> list[Mutant]:
    """Every mutant of a module, in the order of its lines."""
    tree = ast.parse(source)
    found = [
        Mutant(node.lineno, what, _replaced(source, node, text))
        for node in _nodes(tree)
        if isinstance(node, ast.expr | ast.stmt)
        for what, text in _faults(node)
    ]
    return sorted(found, key=lambda mutant: mutant.line)


def _nodes(node: ast.AST) -> Iterator[ast.AST]:
    """A tree's nodes outside f-strings, whose places Python 3.11 does not know either."""
    yield node
    for child in ast.iter_child_nodes(node):
        if not isinstance(child, ast.JoinedStr):
            yield from _nodes(child)


def _faults(node: ast.expr | ast.stmt) -> Iterator[tuple[str, str]]:
    """What can go wrong in a node: its name, and the text instead of the node's."""
    match node:
        case ast.Compare():
            for i, (opposite, name) in enumerate(_OPPOSITE.get(type(op), (None, "")) for op in node.ops):
                if opposite is not None:
                    changed = ast.Compare(node.left, [*node.ops[:i], opposite(), *node.ops[i + 1 :]], node.comparators)
                    yield f"{name} in {ast.unparse(node)}", f"({ast.unparse(changed)})"
        case ast.BoolOp():
            op, name = (ast.Or(), "and to or") if isinstance(node.op, ast.And) else (ast.And(), "or to and")
            yield f"{name} in {ast.unparse(node)}", f"({ast.unparse(ast.BoolOp(op, node.values))})"
        case ast.UnaryOp(op=ast.Not()):
            yield f"no not in {ast.unparse(node)}", f"({ast.unparse(node.operand)})"
        case ast.Constant(value=int(value)) if not isinstance(value, bool):
            yield f"{value} to {value + 1}", str(value + 1)
        case ast.Raise():
            yield f"no {ast.unparse(node)}", "pass"
        case ast.Expr(value=ast.Call(func=ast.Name(id=name) | ast.Attribute(attr=name))) if _is_check(name):
            yield f"no {ast.unparse(node)}", "pass"


def _is_check(name: str) -> bool:
    return name.startswith(("check_", "_check_"))


def _replaced(source: str, node: ast.expr | ast.stmt, text: str) -> str:
    """The source with another text in a node's place; `ast` counts columns in bytes."""
    lines = source.encode().splitlines(keepends=True)
    first, last = node.lineno - 1, (node.end_lineno or node.lineno) - 1
    before, after = lines[first][: node.col_offset], lines[last][node.end_col_offset :]
    return b"".join([*lines[:first], before, text.encode(), after, *lines[last + 1 :]]).decode()


def sample(mutants: list[Mutant], most: int, seed: str) -> list[Mutant]:
    """At most so many of them, by chance, in their order."""
    chosen = random.Random(seed).sample(range(len(mutants)), min(most, len(mutants)))
    return [mutants[i] for i in sorted(chosen)]


@contextlib.contextmanager
def copied_tree() -> Iterator[Path]:
    """A copy of what the tests need, gone afterwards."""
    with tempfile.TemporaryDirectory(prefix="bfl-mutants-", ignore_cleanup_errors=True) as folder:
        for name in COPIED:
            shutil.copytree(REPOSITORY / name, Path(folder, name), ignore=shutil.ignore_patterns("__pycache__"))
        shutil.copy(REPOSITORY / "pyproject.toml", folder)
        yield Path(folder)


def run_tests(tree: Path, tests: tuple[str, ...], seconds: float) -> int | None:
    """The exit code of a module's tests; None if they took too long. No process of theirs stays."""
    command = [sys.executable, "-B", "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", "-W", "ignore", *tests]
    environment = os.environ | {"PYTHONPATH": str(tree), "PYTHONDONTWRITEBYTECODE": "1"}  # a stale .pyc is no mutant
    with (
        (tree / SAID).open("wb") as said,
        subprocess.Popen(
            command, cwd=tree, env=environment, stdout=said, stderr=subprocess.STDOUT, start_new_session=True
        ) as process,
    ):
        try:
            return process.wait(seconds)
        except subprocess.TimeoutExpired:
            return None
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)


def judge(tree: Path, module: str, mutants: list[Mutant], verdicts: Verdicts, seconds: float) -> None:
    """Run a module's tests on each mutant; `verdicts` is filled on the way, for whoever interrupts."""
    path, began = tree / module, time.monotonic()
    honest = path.read_bytes()
    verdicts.is_sound = run_tests(tree, TESTS[module], seconds) == 0
    print(f"{module}: {'sound' if verdicts.is_sound else 'FAILS'} in {time.monotonic() - began:.0f} s", flush=True)
    if not verdicts.is_sound:
        print(*(tree / SAID).read_text(errors="replace").splitlines()[-4:], sep="\n")
    for number, mutant in enumerate(mutants if verdicts.is_sound else [], 1):
        began = time.monotonic()
        try:
            path.write_bytes(mutant.source.encode())
            code = run_tests(tree, TESTS[module], seconds)
        finally:
            path.write_bytes(honest)
        verdicts.killed += bool(code)
        verdicts.timed_out += code is None
        verdicts.survived += [mutant] if code == 0 else []
        fate = "timed out" if code is None else "killed" if code else "SURVIVED"
        took_s = time.monotonic() - began
        print(f"  {number}/{len(mutants)} {fate} in {took_s:.0f} s, line {mutant.line}: {mutant.what:.90}", flush=True)


def show(table: dict[str, Verdicts]) -> None:
    """The table, and every survivor."""
    print("\n| module | mutants | tried | killed | survived | timed out |\n|---|---|---|---|---|---|")
    for module, found in table.items():
        numbers = (found.killed, len(found.survived), found.timed_out)
        cells = (found.made, sum(numbers), *numbers) if found.is_sound else (found.made, "its tests fail", "", "", "")
        print(f"| {module} | {' | '.join(map(str, cells))} |")
    print("\nsurvivors:")
    for module, found in table.items():
        for mutant in found.survived:
            print(f"- {module}:{mutant.line} {mutant.what}")


def main() -> None:
    """Mutate, test, print the table; Ctrl-C prints what is known."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--module", action="append", choices=TESTS, help="may be repeated (default: all)")
    parser.add_argument("--most", type=int, default=8, help="mutants per module, by chance")
    parser.add_argument("--seconds", type=float, default=120.0, help="longest that the tests of a mutant may take")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    for asked in (signal.SIGINT, signal.SIGTERM):
        signal.signal(asked, signal.default_int_handler)
    table: dict[str, Verdicts] = {}
    try:
        with copied_tree() as tree:
            for module in options.module or TESTS:
                mutants = mutants_of((tree / module).read_text(encoding="utf-8"))
                table[module] = Verdicts(len(mutants))
                chosen = sample(mutants, options.most, f"{options.seed} {module}")
                judge(tree, module, chosen, table[module], options.seconds)
    except KeyboardInterrupt:
        print("\ninterrupted")
    show(table)


if __name__ == "__main__":
    main()
