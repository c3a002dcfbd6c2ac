"""One question to a node or an Ethereum network, or several at once, over web3. What web3 and HTTP raise is raised as
errors of ours: with their class where our node named it, and with what to do.
"""

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import requests
from web3 import Web3
from web3.exceptions import ContractLogicError, TimeExhausted, TransactionNotFound, Web3Exception, Web3RPCError
from web3.types import RPCEndpoint

from chain.client.bounded_http import BoundedProvider
from chain.client.payloads import FetchRange
from chain.client.tls import TlsClient
from chain.client.waiting import wait_until
from chain.errors import (
    ChainError,
    DeadlineError,
    LedgerError,
    NodeAwayError,
    NodeUnreachableError,
    RevertedError,
    RpcError,
    error_named,
)

_NO_MIDDLEWARE: Sequence[Any] = ()
"""web3's would ask for the chain's id before every call, and look for names where addresses are"""


def web3_over_http(url: str, token: str = "", timeout_s: float = 30.0, tls: TlsClient | None = None) -> Web3:
    """A web3 of a node or network at `url`; what it answers is bounded, and a token is not sent in the clear (Q6).

    `tls`: who asks, and whom it expects there, in a network with certificates of its own.
    """
    return Web3(BoundedProvider(url, token, timeout_s, tls), middleware=_NO_MIDDLEWARE)


def request(web3: Web3, method: str, *params: Any) -> Any:
    """The answer to a method that web3 has no name for."""
    with translate_errors():
        return web3.manager.request_blocking(RPCEndpoint(method), params)


def request_all(web3: Web3, calls: Sequence[tuple[Any, ...]]) -> list[Any]:
    """The answers to several methods with their parameters, in one request; where one is refused, its error."""
    provider: Any = web3.provider
    with translate_errors():
        found = provider.make_batch_request([(RPCEndpoint(method), params) for method, *params in calls])
        if isinstance(found, dict):
            raise error_of(found.get("error"))
        if len(found) != len(calls):
            raise NodeUnreachableError(
                f"found {len(found)} answers to {len(calls)} questions; is the node one of ours?"
            )
        return [each["result"] if "result" in each else error_of(each.get("error")) for each in found]


def changes_at(web3: Web3, seen: Mapping[str, str], hold_s: float) -> dict[str, str]:
    """Marks of what has changed at a node of ours, at once or as soon as one differs from those that were seen."""
    provider = web3.provider
    if not isinstance(provider, BoundedProvider):
        raise LedgerError(f"found {type(provider).__name__}, expected a node over HTTP to wait at")
    with translate_errors():
        return provider.changes(seen, hold_s)


def read_bytes(found: Any) -> bytes:
    """Bytes out of an answer; `NodeUnreachableError` if it has none."""
    try:
        return bytes.fromhex(found.removeprefix("0x"))
    except (AttributeError, TypeError, ValueError) as error:
        raise NodeUnreachableError(
            f"found {found!r:.80} where the node should answer with bytes; is it one of ours?"
        ) from error


def ranges_of(web3: Web3) -> FetchRange:
    """How a node of ours is asked for some bytes of a payload."""

    def fetch(digest: bytes, start: int, length: int) -> tuple[int, bytes] | None:
        found = request(web3, "bfl_getSidecar", Web3.to_hex(digest), start, length)
        if found is None:
            return None
        try:
            return int(found["size"]), read_bytes(found["data"])
        except (KeyError, TypeError, ValueError) as error:
            raise NodeUnreachableError(f"found {found!r:.80} where the node should answer with a payload") from error

    return fetch


# --- errors

_REVERTED = "execution reverted: "
_UNAUTHORIZED, _BUSY = 401, 503
_MAY_PASS = (requests.ConnectionError, requests.Timeout, requests.exceptions.ChunkedEncodingError)
_UNAUTHORIZED_ADVICE = "; set BFL_RPC_TOKEN to the node's token (of a peer: --peer-token)"
# What web3 raises on an answer that is JSON-RPC in form or not even that, and of no use in any case.
_NO_ANSWER = (Web3Exception, ValueError, TypeError, KeyError, AttributeError, RecursionError)


@contextlib.contextmanager
def translate_errors() -> Iterator[None]:
    """web3's errors as ours: a refusal of our node keeps its class, a revert its reason."""
    try:
        yield
    except ContractLogicError as error:
        raise RevertedError(str(error.message or "").removeprefix(_REVERTED) or "no reason was given") from error
    except Web3RPCError as error:
        raise _error_in(error) from error
    except TimeExhausted as error:
        raise DeadlineError(str(error)) from error
    except requests.HTTPError as error:
        is_busy = error.response is not None and error.response.status_code == _BUSY
        raise (NodeAwayError if is_busy else NodeUnreachableError)(_refusal(error)) from error
    except requests.RequestException as error:
        is_away = isinstance(error, _MAY_PASS) and not isinstance(error, requests.exceptions.SSLError)
        raise (NodeAwayError if is_away else NodeUnreachableError)(_silence(error)) from error
    except _NO_ANSWER as error:
        raise NodeUnreachableError(f"the answer is no JSON-RPC: {type(error).__name__}: {error}") from error


def _refusal(error: requests.HTTPError) -> str:
    """What an HTTP server says instead of an answer; ours says why, in JSON."""
    if error.response is None:
        return f"no node answers: {error}"
    try:
        said = error.response.json()["error"]["message"]
    except (ValueError, TypeError, KeyError):
        said = error.response.reason
    what_to_do = _UNAUTHORIZED_ADVICE if error.response.status_code == _UNAUTHORIZED else ""
    where = f"the node at {_node_of(error.response.url)}"
    return f"{where} refuses (HTTP {error.response.status_code}): {said!s:.200}{what_to_do}"


def _silence(error: requests.RequestException) -> str:
    """Where nobody answers and why, without the HTTP library's classes around it."""
    where = f" at {_node_of(str(error.request.url))}" if error.request is not None else ""
    return f"no node answers{where} ({_cause(error)}); start the node, or correct the address"


def _node_of(url: str) -> str:
    """The address as it was given, without what was asked there."""
    return url.partition("/changes")[0].rstrip("/")


def _cause(error: requests.RequestException) -> str:
    inner: BaseException | None = error
    while inner is not None:
        if isinstance(inner, OSError) and not isinstance(inner, requests.RequestException):
            return (inner.strerror or str(inner)).lower()
        inner = inner.__cause__ or inner.__context__
    return f"{error!s:.120}"


def _error_in(error: Web3RPCError) -> ChainError:
    response: Any = error.rpc_response or {}
    return error_of(response.get("error"), str(error.message))


def error_of(found: Any, otherwise: str = "an error without a message") -> ChainError:
    """What stands in an answer's place, as an error of ours."""
    content = found if isinstance(found, dict) else {}
    data = content.get("data")
    message = str(content.get("message", otherwise))
    kind = error_named(str(data.get("error"))) if isinstance(data, dict) else None
    if kind is not None and isinstance(data, dict):
        return kind(str(data.get("message", message)))
    if message.startswith(_REVERTED):
        return RevertedError(message.removeprefix(_REVERTED))
    return RpcError(message)


def network_fees(web3: Web3) -> tuple[int, int]:
    """(fee, priority fee) that a network with money takes for the next blocks."""
    priority = web3.eth.max_priority_fee
    base = web3.eth.get_block("latest").get("baseFeePerGas", 0)
    return 2 * base + priority, priority


def await_receipt(web3: Web3, transaction_hash: bytes, deadline_s: float) -> Any:
    """The receipt of a transaction once it is mined; `DeadlineError` if that takes too long."""
    receipt = wait_until(lambda: _find_receipt(web3, transaction_hash), deadline_s)
    if receipt is None:
        raise DeadlineError(f"transaction 0x{transaction_hash.hex()} was not mined within {deadline_s:g} s")
    return receipt


def _find_receipt(web3: Web3, transaction_hash: bytes) -> Any:
    try:
        with translate_errors():
            return web3.eth.get_transaction_receipt(Web3.to_hex(transaction_hash))
    except RpcError as error:
        if not isinstance(error.__cause__, TransactionNotFound):
            raise
        return None
