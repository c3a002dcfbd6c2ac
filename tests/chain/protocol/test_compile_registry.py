"""The registry that is committed is the one its source gives."""

import json
from importlib.util import find_spec
from pathlib import Path

import pytest

from chain.protocol import compile_registry
from chain.protocol.compile_registry import BUILD, EVM_VERSION, SIZE_CLASSES, SOURCE, build_text, compiled_registry
from chain.protocol.contract import RegistryTerms, deployment

needs_vyper = pytest.mark.skipif(
    find_spec("vyper") is None, reason="vyper is not here: pip install vyper==0.4.3 to check registry.json"
)
# EIP-170 and EIP-3860: what an Ethereum network takes as code, and as creation code.
MOST_CODE, MOST_CREATION_CODE = 24_576, 49_152


@pytest.mark.slow
@needs_vyper
def test_the_committed_build_is_what_the_source_compiles_to_byte_for_byte() -> None:
    rebuilt, committed = build_text(compiled_registry()), BUILD.read_text(encoding="utf-8")
    assert json.loads(rebuilt)["compiler"] == json.loads(committed)["compiler"], "another vyper"
    assert rebuilt == committed, "registry.json is stale: run python -m chain.protocol.compile_registry"


def test_the_build_is_written_in_one_form() -> None:
    committed = BUILD.read_text(encoding="utf-8")
    assert build_text(json.loads(committed)) == committed


def test_there_is_one_code_for_each_size_class_and_one_abi() -> None:
    build = json.loads(BUILD.read_text(encoding="utf-8"))
    assert sorted(map(int, build["bytecode"])) == sorted(SIZE_CLASSES)
    assert len(set(build["bytecode"].values())) == len(SIZE_CLASSES)
    assert build["evm-version"] == EVM_VERSION == "london"
    assert build["compiler"] == "vyper 0.4.3"
    assert {entry["type"] for entry in build["abi"]} == {"constructor", "function", "event"}


@pytest.mark.parametrize("size", SIZE_CLASSES)
def test_every_ethereum_network_takes_the_code(size: int) -> None:
    creation = deployment(size, RegistryTerms())
    assert len(creation) < MOST_CODE < MOST_CREATION_CODE  # the code itself is shorter than what creates it


def test_a_source_without_its_frame_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("vyper", reason="vyper is not here")
    source = SOURCE.read_text(encoding="utf-8")
    for changed in (source.replace("= 131072", "= 131073"), source + "\nMAX_PAYLOAD: constant(uint256) = 131072\n"):
        path = tmp_path / "registry.vy"
        path.write_text(changed, encoding="utf-8")
        monkeypatch.setattr(compile_registry, "SOURCE", path)
        with pytest.raises(ValueError, match=r"registry\.vy has no single line 'MAX_PAYLOAD"):
            compiled_registry()
