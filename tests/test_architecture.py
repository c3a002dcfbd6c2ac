"""The import arrows between our packages, and what each package may cost to import."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parents[1]
OURS = ("bfl", "edge_servers", "clients", "chain", "policy")
MAY_IMPORT = {
    "bfl": {"edge_servers", "clients", "chain", "policy"},
    "edge_servers": {"clients", "chain", "policy"},
    "clients": {"chain", "policy"},
    "chain": set(),
    "policy": set(),
}
# What a device is, not what it shares with an edge server.
DEVICE_ONLY = {"clients.client_app", "clients.device", "clients.partition", "clients.miner"}
# py-evm's repository is archived: what executes is in two files, and everything else speaks web3.
IMPORTS_PY_EVM = {"chain/evm.py", "chain/vm.py"}


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


def modules() -> list[Path]:
    return [path for package in OURS for path in sorted((REPOSITORY / package).rglob("*.py"))]


@pytest.mark.parametrize("path", modules(), ids=lambda p: str(p.relative_to(REPOSITORY)))
def test_imports_follow_the_arrows(path: Path) -> None:
    package = path.relative_to(REPOSITORY).parts[0]
    for name in imports_of(path):
        other = name.split(".")[0]
        if other in OURS and other != package:
            assert other in MAY_IMPORT[package], f"{package} must not import {name}"
        if package == "edge_servers":
            assert name not in DEVICE_ONLY, f"an edge server must not import {name}"
        assert other != "tests", f"{path} imports tests"


@pytest.mark.parametrize("path", modules(), ids=lambda p: str(p.relative_to(REPOSITORY)))
def test_no_folder_or_file_is_called_utils(path: Path) -> None:
    forbidden = {"utils", "common", "helpers", "manager", "base"}
    assert not forbidden & {part.removesuffix(".py") for part in path.relative_to(REPOSITORY).parts}


def test_py_evm_is_imported_where_blocks_are_executed_and_nowhere_else() -> None:
    benchmarks = sorted((REPOSITORY / "benchmarks").rglob("*.py"))
    places = {
        str(path.relative_to(REPOSITORY))
        for path in [*modules(), *benchmarks]
        if any(name.split(".")[0] == "eth" for name in imports_of(path))
    }
    assert places == IMPORTS_PY_EVM


def test_only_one_place_declares_torchvisions_operator() -> None:
    places = [path for path in modules() if "torch.library.define" in path.read_text(encoding="utf-8")]
    assert [path.name for path in places] == ["sources.py"]


@pytest.mark.parametrize(
    "command",
    [
        "",
        "simulate",
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
    shown = subprocess.run([sys.executable, "-c", code], cwd=REPOSITORY, capture_output=True, text=True)
    assert "Usage: bfl" in shown.stdout, shown.stderr
    assert shown.stdout.splitlines()[-1] == "[]"


def test_a_device_needs_neither_plots_nor_partitions_nor_ray() -> None:
    code = (
        "import sys; import clients.client_app, edge_servers.server_app;"
        "print([m for m in ('matplotlib', 'ray', 'datasets', 'flwr_datasets', 'torchvision') if m in sys.modules])"
    )
    shown = subprocess.run([sys.executable, "-c", code], cwd=REPOSITORY, capture_output=True, text=True)
    assert shown.stdout.strip() == "[]", shown.stderr


def test_an_auditor_needs_no_py_evm() -> None:
    code = (
        "import sys; sys.modules['eth'] = None;"
        "import bfl.audit_commands, bfl.audit_replay, bfl.portable_proof, edge_servers.audit; print('light')"
    )
    shown = subprocess.run([sys.executable, "-c", code], cwd=REPOSITORY, capture_output=True, text=True)
    assert shown.stdout.strip() == "light", shown.stderr
