"""`python -m chain.protocol.compile_registry` builds registry.json from registry.vy; needs vyper, a developer's tool.

Vyper's `Bytes[MAX]` is a static memory frame whose gas grows with the square of MAX, whatever is really sent: so there
is one build per size class, and a network takes the smallest that holds its payloads. Vyper puts a digest of the
source into the bytecode: another comment in registry.vy is another contract, and another head of every chain.
"""

import json
from pathlib import Path
from typing import Any

EVM_VERSION = "london"  # code for a later fork deploys with status 1, and then every call fails
SIZE_CLASSES = (1 << 17, 1 << 19, 1 << 20, 1 << 22)
SOURCE = Path(__file__).with_name("registry.vy")
BUILD = Path(__file__).with_name("registry.json")
_FRAME = "MAX_PAYLOAD: constant(uint256) = 131072"


def compiled_registry() -> dict[str, Any]:
    """ABI and one deployment bytecode per size class."""
    import vyper
    from vyper.compiler.settings import OptimizationLevel, Settings

    source = SOURCE.read_text(encoding="utf-8")
    if source.count(_FRAME) != 1:
        raise ValueError(f"{SOURCE.name} has no single line '{_FRAME}' to set the size class in")
    abi, bytecode = None, {}
    for size in SIZE_CLASSES:
        built = vyper.compile_code(
            source.replace(_FRAME, f"MAX_PAYLOAD: constant(uint256) = {size}"),
            output_formats=["abi", "bytecode"],
            settings=Settings(evm_version=EVM_VERSION, optimize=OptimizationLevel.GAS),
        )
        abi, bytecode[str(size)] = built["abi"], built["bytecode"]
    return {"compiler": f"vyper {vyper.__version__}", "evm-version": EVM_VERSION, "abi": abi, "bytecode": bytecode}


def build_text(built: dict[str, Any]) -> str:
    """registry.json as it is committed."""
    return json.dumps(built, indent=1, sort_keys=True) + "\n"


if __name__ == "__main__":
    BUILD.write_text(build_text(compiled_registry()), encoding="utf-8")
    print(f"{BUILD.name}: {BUILD.stat().st_size} bytes, size classes {', '.join(map(str, SIZE_CLASSES))}")
