"""What import-linter does not see (pyproject.toml has the arrows and the rooms): size, py-evm, what an import costs."""

import ast
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parents[1]
HONEST = ("edge_servers", "clients", "chain", "policy")
OURS = ("bfl", *HONEST)
MOST_MODULES, MOST_LINES = 14, 300
# py-evm's repository is archived: what executes is in three files, and everything else speaks web3.
IMPORTS_PY_EVM = {"chain/node/evm.py", "chain/node/interpreter.py", "chain/node/vm.py"}


def imports_of(path: Path) -> set[str]:
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            assert node.level == 0, f"{path}: relative import"
            found.add(node.module)
            found |= {f"{node.module}.{alias.name}" for alias in node.names}
    return found


def modules(packages: tuple[str, ...] = OURS) -> list[Path]:
    return [path for package in packages for path in sorted((REPOSITORY / package).rglob("*.py"))]


def words_of(path: Path) -> set[str]:
    """The names and texts that a module's code has; neither comments nor docstrings."""
    nodes = list(ast.walk(ast.parse(path.read_text(encoding="utf-8"))))
    told = {id(node.value) for node in nodes if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)}
    fields = ("id", "attr", "arg", "name", "asname", "module", "value")
    found = (getattr(node, field, None) for node in nodes if id(node) not in told for field in fields)
    return {word for word in found if isinstance(word, str)}


def test_no_folder_or_file_is_called_utils() -> None:
    forbidden = {"utils", "common", "helpers", "manager", "base"}
    names = {path: {part.removesuffix(".py") for part in path.relative_to(REPOSITORY).parts} for path in modules()}
    assert [path for path, parts in names.items() if parts & forbidden] == []


def test_no_room_is_crowded_and_no_file_long() -> None:
    rooms = Counter(path.parent for path in modules() if path.name != "__init__.py")
    crowded = {str(room.relative_to(REPOSITORY)): count for room, count in rooms.items() if count > MOST_MODULES}
    assert crowded.keys() <= {"clients"}
    lines = {path: path.read_text(encoding="utf-8").count("\n") for path in modules()}
    assert {str(path.relative_to(REPOSITORY)): count for path, count in lines.items() if count > MOST_LINES} == {}


def test_py_evm_is_imported_where_blocks_are_executed_and_nowhere_else() -> None:
    benchmarks = sorted((REPOSITORY / "benchmarks").rglob("*.py"))
    places = {
        str(path.relative_to(REPOSITORY))
        for path in [*modules(), *benchmarks]
        if any(name.split(".")[0] == "eth" for name in imports_of(path))
    }
    assert places == IMPORTS_PY_EVM


def test_honest_code_knows_no_attacks() -> None:
    """Who misbehaves is around it, in `bfl/attacks`; `policy/streams.py` numbers every source of chance in one list."""
    forbidden = re.compile(r"conduct|attack|Conduct|Attack|ATTACK|\bTwice\b|WITHHELD")
    places = {
        str(path.relative_to(REPOSITORY)): sorted(word for word in words_of(path) if forbidden.search(word))
        for path in modules(HONEST)
    }
    assert {place: words for place, words in places.items() if words} == {"policy/streams.py": ["ATTACK"]}
    assert [path for path in modules(HONEST) if any(name.split(".")[0] == "bfl" for name in imports_of(path))] == []


def test_no_test_imports_another_test() -> None:
    """What tests share is in modules of its own: one test file can be changed, or run, without the others."""
    found = {
        str(path.relative_to(REPOSITORY)): sorted(
            name for name in imports_of(path) if name.startswith("tests.") and ".test_" in name
        )
        for path in sorted((REPOSITORY / "tests").rglob("*.py"))
    }
    assert {path: names for path, names in found.items() if names} == {}


def test_only_one_place_declares_torchvisions_operator() -> None:
    places = [path for path in modules() if "torch.library.define" in path.read_text(encoding="utf-8")]
    assert [path.name for path in places] == ["sources.py"]


def printed_by(code: str) -> str:
    """What a Python of its own prints: only there can be seen what is loaded."""
    ran = subprocess.run([sys.executable, "-c", code], cwd=REPOSITORY, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr
    return ran.stdout


@pytest.mark.parametrize(
    "command",
    [
        "",
        "simulate",
        "sweep",
        "chain",
        "chain block",
        "audit check",
        "audit model",
        "network",
        "network node",
        "policy train",
        "reproduce",
    ],
)
def test_help_is_shown_without_loading_what_takes_seconds(command: str) -> None:
    code = (
        "import atexit, sys; from bfl.cli import main;"
        "atexit.register(lambda: print([m for m in ('torch', 'flwr', 'web3', 'eth', 'numpy') if m in sys.modules]));"
        f"sys.argv = ['bfl', *{command.split()}, '--help']; main()"
    )
    shown = printed_by(code)
    assert "Usage: bfl" in shown
    assert shown.splitlines()[-1] == "[]"


def test_a_device_needs_neither_plots_nor_partitions_nor_ray() -> None:
    code = (
        "import sys; import clients.client_app, bfl.simulation.server_app;"
        "print([m for m in ('matplotlib', 'ray', 'datasets', 'flwr_datasets', 'torchvision') if m in sys.modules])"
    )
    assert printed_by(code).strip() == "[]"


def test_a_device_of_a_kit_needs_neither_py_evm_nor_plots_nor_data_sets_nor_ray() -> None:
    """What `bfl network device` loads, its executor and its miner included."""
    absent = ("eth", "matplotlib", "ray", "datasets", "flwr_datasets", "torchvision", "gymnasium", "stable_baselines3")
    code = (
        f"import sys; sys.modules.update(dict.fromkeys({absent}));"
        "import bfl.cli, bfl.network.devices.resident, bfl.network.devices.stock, bfl.network.kits, bfl.network.parts;"
        "import bfl.network.supervision, bfl.network.status, bfl.network.enrolment.joining, chain.mining.many_nodes;"
        "import bfl.network.devices.mining_limit; print('light')"
    )
    assert printed_by(code).strip() == "light"


@pytest.mark.parametrize("role", ["edge", "device"])
def test_what_watches_the_parts_of_a_machine_needs_none_of_their_libraries(role: str) -> None:
    """It lives as long as its machine: with torch it took 175 MB of each."""
    code = (
        "import atexit, sys; from bfl.cli import main; import bfl.network.parts, bfl.network.supervision;"
        "atexit.register(lambda: print([m for m in ('torch', 'flwr', 'web3', 'eth', 'numpy') if m in sys.modules]));"
        f"sys.argv = ['bfl', 'network', {role!r}, 'no-such-kit']\n"
        "try: main()\n"
        "except SystemExit: pass"
    )
    assert printed_by(code).splitlines()[-1] == "[]"


def test_an_auditor_needs_no_py_evm() -> None:
    code = (
        "import sys; sys.modules['eth'] = None;"
        "import bfl.commands.audit, bfl.auditing.findings, bfl.auditing.portable_proof, edge_servers.replay.audit;"
        "print('light')"
    )
    assert printed_by(code).strip() == "light"


def test_a_node_needs_neither_torch_nor_flower_nor_ray() -> None:
    """What `bfl network node` and `bfl network miner` load, the check of blocks included."""
    code = (
        "import sys; import bfl.cli, chain.node.node, chain.rpc.server, chain.peers.peers, chain.mining.many_nodes;"
        "import edge_servers.ledger.block_check;"
        "print([m for m in ('torch', 'flwr', 'ray') if m in sys.modules])"
    )
    assert printed_by(code).strip() == "[]"
