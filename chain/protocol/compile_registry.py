"""`python -m chain.protocol.compile_registry` builds registry.json from registry.vy; needs vyper, a developer's tool.

Vyper puts a digest of the source into the bytecode: another comment in registry.vy is another contract, and another
head of every chain.
"""

import json
from pathlib import Path
from typing import Any

EVM_VERSION = "london"  # code for a later fork deploys with status 1, and then every call fails
SOURCE = Path(__file__).with_name("registry.vy")
BUILD = Path(__file__).with_name("registry.json")


def compiled_registry() -> dict[str, Any]:
    """ABI and deployment bytecode: one build for every model, payloads are beside the chain (B1)."""
    import vyper
    from vyper.compiler.settings import OptimizationLevel, Settings

    built = vyper.compile_code(
        SOURCE.read_text(encoding="utf-8"),
        output_formats=["abi", "bytecode"],
        settings=Settings(evm_version=EVM_VERSION, optimize=OptimizationLevel.GAS),
    )
    return {"compiler": f"vyper {vyper.__version__}", "evm-version": EVM_VERSION, **built}


def build_text(built: dict[str, Any]) -> str:
    """registry.json as it is committed."""
    return json.dumps(built, indent=1, sort_keys=True) + "\n"


if __name__ == "__main__":
    BUILD.write_text(build_text(compiled_registry()), encoding="utf-8")
    print(f"{BUILD.name}: {BUILD.stat().st_size} bytes")
