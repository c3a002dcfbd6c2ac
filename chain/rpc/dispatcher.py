"""JSON-RPC 2.0: one dispatcher for HTTP and for the in-process provider. A malformed request is answered, never fatal.

A request without an id is a notification: it is carried out and not answered, not even where it fails (section 4.1).
A refusal has code -32000 and names its class in `data.error`, so that the client raises the same one
(`chain.errors.error_named`); a revert has code 3, "execution reverted: REASON" and the registry's own bytes as data, as
every Ethereum tool expects it.
"""

import copy
import inspect
import json
import logging
import math
from collections.abc import Callable, Generator
from dataclasses import dataclass
from typing import Any, cast

import eth_abi

from chain.errors import ChainError, RevertedError
from chain.node.node import Node
from chain.peers.pool_sync import is_gap
from chain.rpc.arguments import ArgumentError, excerpt
from chain.rpc.doors import OWNERS, Doors, check_open
from chain.rpc.methods import Methods

Answer = dict[str, Any]
PARSE_ERROR, INVALID_REQUEST, METHOD_NOT_FOUND, INVALID_PARAMS, INTERNAL_ERROR = -32700, -32600, -32601, -32602, -32603
REFUSED, TOO_LARGE, TOO_OFTEN = -32000, -32003, -32005
EXECUTION_REVERTED = 3
MAX_BATCH = 100
MAX_BATCH_BYTES = 16 << 20
# A batch of 100 needs 901. `json` recurses in C: wherever a library has lifted Python's recursion limit (py-evm: to
# 100,000; see `chain.limit_recursion`), 100 KB of "[" end the process.
MAX_BRACKETS = 1000
# Nor does `json` let anybody else run meanwhile: 32 MB of "1,1,1" are 16 million objects, and a second of silence.
MAX_COMMAS = 20_000
_ERROR_STRING = bytes.fromhex("08c379a0")  # Solidity's Error(string)
_BRINGS = ("eth_sendRawTransaction", "bfl_sendPost", "bfl_importBlock")
"""Methods that hear of gaps: what is refused there may only be early"""
_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class _RequestError(Exception):
    code: int
    message: str
    data: Any = None


@dataclass(frozen=True)
class _Method:
    """A method, and how many parameters it takes."""

    name: str
    call: Callable[..., Any]
    least: int
    most: int


@dataclass(frozen=True)
class Charge:
    """What the calls of a batch cost whoever sent it: whether one more may be made, and what he hears if not."""

    admits: Callable[[], bool]
    refusal: str


_FREE = Charge(lambda: True, "")


class Dispatcher:
    """Answers JSON-RPC requests about one node."""

    def __init__(self, node: Node, on_gap: Callable[[], None] = lambda: None) -> None:
        """`on_gap` hears that a post or a block did not fit because something before it may be missing here."""
        self._on_gap, self._doors = on_gap, OWNERS
        self._methods = {name: _method(name, call) for name, call in Methods(node).table().items()}

    def at(self, doors: Doors) -> "Dispatcher":
        """The same, for somebody who stands at these doors."""
        other = copy.copy(self)
        other._doors = doors
        return other

    @property
    def methods(self) -> frozenset[str]:
        """The names of all methods, open or not."""
        return frozenset(self._methods)

    def respond_to_bytes(self, body: bytes) -> bytes:
        """The answer to a request body: one request, or a batch. Empty where only notifications were sent."""
        steps = self.steps(body, _FREE)
        while True:
            try:
                next(steps)
            except StopIteration as end:
                return cast(bytes, end.value)

    def steps(self, body: bytes, charge: Charge) -> Generator[None, None, bytes]:
        """The same, call by call of a batch: whoever answers it may let others go first in between.

        The first call was paid for with the request; `charge` is asked for every other one.
        """
        try:
            request = _parse(body)
            if isinstance(request, list):
                return (yield from self._batch(request, charge))
        except _RequestError as failure:
            return _encode(_error(None, failure))
        return self._reply(request)

    def _batch(self, requests: list[Any], charge: Charge) -> Generator[None, None, bytes]:
        if not 0 < len(requests) <= MAX_BATCH:
            found = f"found a batch of {len(requests)} requests, expected 1 to {MAX_BATCH}"
            raise _RequestError(INVALID_REQUEST, found)
        replies: list[bytes] = []
        for number, request in enumerate(requests):
            if sum(map(len, replies)) > MAX_BATCH_BYTES:
                message = f"the batch's answers are larger than {MAX_BATCH_BYTES} bytes; ask for less at once"
                replies.append(_encode(_error(_identifier(request), _RequestError(TOO_LARGE, message))))
            elif number and not charge.admits():
                if not _is_notification(request):
                    replies.append(_encode(_error(_identifier(request), _RequestError(TOO_OFTEN, charge.refusal))))
            elif reply := self._reply(request):
                replies.append(reply)
            yield
        return b"[" + b",".join(replies) + b"]" if replies else b""

    def _reply(self, request: Any) -> bytes:
        answer = self.respond(request)
        return b"" if _is_notification(request) else _encode(answer)

    def respond(self, request: Any) -> Answer:
        """The answer to one request."""
        identifier = _identifier(request)
        try:
            return {"jsonrpc": "2.0", "id": identifier, "result": self._result(request)}
        except _RequestError as failure:
            return _error(identifier, failure)
        except Exception as error:  # noqa: BLE001 - the server must live on; the log has the trace
            _log.exception("a JSON-RPC request failed")
            return _error(identifier, _RequestError(INTERNAL_ERROR, f"internal error: {type(error).__name__}"))

    def _result(self, request: Any) -> Any:
        _check_request(request)
        params = request.get("params", [])
        if not isinstance(params, list):
            raise _RequestError(INVALID_PARAMS, f"params: found {excerpt(params)}, expected a list")
        method = self._methods.get(request["method"])
        if method is None:
            raise _RequestError(METHOD_NOT_FOUND, f"this node has no method {excerpt(request['method'])}")
        try:
            return _call(method, params, self._doors)
        except _RequestError as failure:
            if method.name in _BRINGS and isinstance(failure.__cause__, ChainError) and is_gap(failure.__cause__):
                self._on_gap()
            raise


def _method(name: str, call: Callable[..., Any]) -> _Method:
    parameters = inspect.signature(call).parameters.values()
    return _Method(name, call, sum(each.default is each.empty for each in parameters), len(parameters))


def _parse(body: bytes) -> Any:
    brackets = body.count(b"[") + body.count(b"{")
    if brackets > MAX_BRACKETS:
        raise _RequestError(INVALID_REQUEST, f"found {brackets} opening brackets, expected at most {MAX_BRACKETS}")
    if (commas := body.count(b",")) > MAX_COMMAS:
        raise _RequestError(INVALID_REQUEST, f"found {commas} commas, expected at most {MAX_COMMAS}")
    try:
        return json.loads(body.decode(), parse_constant=_refuse_constant)
    except (ValueError, RecursionError) as error:
        reason = str(error).partition(";")[0]  # behind it Python advises its programmer, not our client
        raise _RequestError(PARSE_ERROR, f"the request is no JSON in UTF-8: {reason}") from error


def _refuse_constant(name: str) -> None:
    raise ValueError(f"found {name}, which JSON does not have")


def _check_request(request: Any) -> None:
    if not isinstance(request, dict) or not isinstance(request.get("method"), str):
        raise _RequestError(INVALID_REQUEST, "found no request: expected an object with method and params")
    if request.get("jsonrpc") != "2.0":
        raise _RequestError(INVALID_REQUEST, f"jsonrpc: found {excerpt(request.get('jsonrpc'))}, expected '2.0'")
    if not _is_identifier(request.get("id")):
        raise _RequestError(INVALID_REQUEST, f"id: found {excerpt(request['id'])}, expected text, a number or null")


def _is_identifier(found: Any) -> bool:
    if isinstance(found, float):
        return math.isfinite(found)  # 1e999 is infinite, and has no JSON
    return found is None or (isinstance(found, str | int) and not isinstance(found, bool))


def _identifier(request: Any) -> Any:
    """The id to answer with; null where there is none that can be echoed."""
    found = request.get("id") if isinstance(request, dict) else None
    return found if _is_identifier(found) else None


def _is_notification(request: Any) -> bool:
    """A well-formed request without an id; a malformed one is answered with id null."""
    if not isinstance(request, dict) or "id" in request:
        return False
    return request.get("jsonrpc") == "2.0" and isinstance(request.get("method"), str)


def _call(method: _Method, params: list[Any], doors: Doors) -> Any:
    if not method.least <= len(params) <= method.most:
        expected = f"{method.least}" if method.least == method.most else f"{method.least} to {method.most}"
        raise _RequestError(INVALID_PARAMS, f"{method.name}: found {len(params)} parameters, expected {expected}")
    try:
        check_open(method.name, doors)
        return method.call(*params)
    except ArgumentError as error:
        raise _RequestError(INVALID_PARAMS, str(error)) from error
    except RevertedError as error:
        data = _ERROR_STRING + eth_abi.encode(["string"], [str(error)])
        raise _RequestError(EXECUTION_REVERTED, f"execution reverted: {error}", "0x" + data.hex()) from error
    except ChainError as error:
        kind = {"error": type(error).__name__, "message": str(error)}
        raise _RequestError(REFUSED, str(error), kind) from error


def _error(identifier: Any, failure: _RequestError) -> Answer:
    content: Answer = {"code": failure.code, "message": failure.message}
    if failure.data is not None:
        content["data"] = failure.data
    return {"jsonrpc": "2.0", "id": identifier, "error": content}


def _encode(answer: Answer) -> bytes:
    return json.dumps(answer, separators=(",", ":"), allow_nan=False).encode()
