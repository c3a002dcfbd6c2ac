"""The registry that is committed is the one its source gives."""

import json
from importlib.util import find_spec

import pytest

from chain.protocol.compile_registry import BUILD, EVM_VERSION, build_text, compiled_registry
from chain.protocol.contract import RegistryTerms, creation_code, deployment
from tests.chain.network import BareRegistry

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


def test_there_is_one_code_for_every_model_and_one_abi() -> None:
    build = json.loads(BUILD.read_text(encoding="utf-8"))
    assert bytes.fromhex(build["bytecode"].removeprefix("0x")) == creation_code()
    assert build["evm-version"] == EVM_VERSION == "london"
    assert build["compiler"] == "vyper 0.4.3"
    assert {entry["type"] for entry in build["abi"]} == {"constructor", "function", "event"}


def test_every_ethereum_network_takes_the_code() -> None:
    registry = BareRegistry()
    assert 0 < len(registry.code) <= MOST_CODE
    assert len(deployment(RegistryTerms())) <= MOST_CREATION_CODE
