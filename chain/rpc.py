"""JSON-RPC: one dispatcher for HTTP and for the in-process provider. A malformed request is answered, never fatal."""

import json
import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from chain.errors import ChainError, RevertedError
from chain.methods import Methods
from chain.node import Node
from chain.parsing import ParameterError

Answer = dict[str, Any]
PARSE_ERROR, INVALID_REQUEST, METHOD_NOT_FOUND, INVALID_PARAMS, INTERNAL_ERROR = -32700, -32600, -32601, -32602, -32603
REFUSED = -32000
EXECUTION_REVERTED = 3
MAX_BATCH = 100
_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class _RequestError(Exception):
    code: int
    message: str
    data: Any = None


class Dispatcher:
    """Answers JSON-RPC requests about one node."""

    def __init__(self, node: Node) -> None:
        self._methods = Methods(node).table()

    def respond_to_bytes(self, body: bytes) -> bytes:
        """The answer to a request body: one request, or a batch."""
        try:
            request = json.loads(body)
        except (ValueError, RecursionError) as error:
            return _encoded(_error(None, _RequestError(PARSE_ERROR, f"the request is no JSON: {error}")))
        if not isinstance(request, list):
            return _encoded(self.respond(request))
        if not 0 < len(request) <= MAX_BATCH:
            found = f"found a batch of {len(request)} requests, expected 1 to {MAX_BATCH}"
            return _encoded(_error(None, _RequestError(INVALID_REQUEST, found)))
        return _encoded([self.respond(each) for each in request])

    def respond(self, request: Any) -> Answer:
        """The answer to one request."""
        identifier = request.get("id") if isinstance(request, dict) else None
        try:
            return {"jsonrpc": "2.0", "id": identifier, "result": self._result(request)}
        except _RequestError as failure:
            return _error(identifier, failure)
        except Exception as error:  # noqa: BLE001 - the server must live on; the log has the trace
            _log.exception("a JSON-RPC request failed")
            return _error(identifier, _RequestError(INTERNAL_ERROR, f"internal error: {type(error).__name__}"))

    def _result(self, request: Any) -> Any:
        if not isinstance(request, dict) or not isinstance(request.get("method"), str):
            raise _RequestError(INVALID_REQUEST, "found no request: expected an object with method and params")
        params = request.get("params", [])
        if not isinstance(params, list):
            raise _RequestError(INVALID_PARAMS, f"found params of type {type(params).__name__}, expected a list")
        method = self._methods.get(request["method"])
        if method is None:
            raise _RequestError(METHOD_NOT_FOUND, f"this node has no method {request['method'][:100]!r}")
        return _called(method, params)


def _called(method: Callable[..., Any], params: list[Any]) -> Any:
    try:
        return method(*params)
    except ParameterError as error:
        raise _RequestError(INVALID_PARAMS, str(error)) from error
    except RevertedError as error:
        raise _RequestError(EXECUTION_REVERTED, f"execution reverted: {error}", _kind(error)) from error
    except ChainError as error:
        raise _RequestError(REFUSED, str(error), _kind(error)) from error
    except TypeError as error:
        if error.__traceback__ is not None and error.__traceback__.tb_next is None:  # raised by the call itself
            raise _RequestError(INVALID_PARAMS, f"found {len(params)} parameters: {error}") from error
        raise


def _kind(error: ChainError) -> Answer:
    """Names the class, so that the client raises the same one (`chain.errors.error_named`)."""
    return {"error": type(error).__name__, "message": str(error)}


def _error(identifier: Any, failure: _RequestError) -> Answer:
    content: Answer = {"code": failure.code, "message": failure.message}
    if failure.data is not None:
        content["data"] = failure.data
    return {"jsonrpc": "2.0", "id": identifier, "error": content}


def _encoded(answer: Any) -> bytes:
    return json.dumps(answer, separators=(",", ":")).encode()
