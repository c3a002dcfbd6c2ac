"""A node that says whatever a test wants it to say."""

from collections.abc import Mapping
from typing import Any, cast

from web3 import Web3
from web3.providers import JSONBaseProvider
from web3.types import RPCEndpoint, RPCResponse


class Scripted(JSONBaseProvider):
    """Answers by method: a value, or a function of the parameters; everything else is asked of `behind`."""

    def __init__(self, answers: Mapping[str, Any], behind: Web3 | None = None) -> None:
        super().__init__()
        self._answers, self._behind = answers, behind

    def make_request(self, method: RPCEndpoint, params: Any) -> RPCResponse:
        if method not in self._answers:
            assert self._behind is not None, f"nobody answers {method}"
            return cast(JSONBaseProvider, self._behind.provider).make_request(method, params)
        said = self._answers[method]
        return {"jsonrpc": "2.0", "id": 1, "result": said(*params) if callable(said) else said}


def saying(behind: Web3 | None = None, **answers: Any) -> Web3:
    """A web3 of such a node."""
    return Web3(Scripted(answers, behind))
