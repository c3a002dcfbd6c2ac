"""Whether an audit executes the blocks (Q3): wherever py-evm is installed, unless somebody says otherwise."""

_PY_EVM = "eth"


def why_not_executed(wanted: bool | None) -> str:
    """Why receipts are believed; empty where blocks are executed. A missing py-evm is an error if it was asked for."""
    if wanted is False:
        return "--no-execute"
    try:
        import chain.audit.execution  # noqa: F401
    except ModuleNotFoundError as error:
        if wanted or str(error.name).partition(".")[0] != _PY_EVM:
            raise
        return "py-evm is not installed"
    return ""
