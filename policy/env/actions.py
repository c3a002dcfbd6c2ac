"""An action in each of its three forms, read as a decision: a dict (S30), one Box, one MultiDiscrete.

No gymnasium here: an edge server reads the actions of somebody's agent too.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from policy.errors import ActionError
from policy.parameters import LatencyParams
from policy.world.projection import Decision

Action = dict[str, NDArray[Any]]
SHARE_LEVELS = 4
"""L of a MultiDiscrete action: shares 0, 1/3, 2/3, 1"""


def read_action(action: Any, batch: int | None, params: LatencyParams) -> Decision:
    """An action dict as a decision for B states; `ActionError` says what is wrong with it."""
    if not isinstance(action, dict) or action.keys() != {"choice", "params"}:
        raise ActionError(
            f"found {_what(action)} as an action, expected a dict with choice {(params.devices,)} and params "
            f"{(params.devices, 4)}; for one array of numbers wrap the environment (policy.env.wrappers)"
        )
    choice, shares = _array(action["choice"]), _array(action["params"])
    if batch is None:
        choice, shares = choice[None], shares[None]
    expected = (batch or 1, params.devices)
    if choice.shape != expected or shares.shape != (*expected, 4):
        raise ActionError(
            f"found choice of shape {choice.shape} and params of shape {shares.shape}, "
            f"expected {expected} and {(*expected, 4)}: is it for {params.devices} devices?"
        )
    if choice.dtype.kind not in "iu":
        raise ActionError(f"found choices of type {choice.dtype}, expected whole numbers")
    return Decision(choice.astype(np.int64), shares.astype(np.float64))


def as_action(decision: Decision) -> Action:
    """The decision for one state as an action dict, to play it in the environment."""
    if decision.choice.shape[0] != 1:
        raise ActionError(f"found a decision for {decision.choice.shape[0]} states, expected one for a single state")
    return {"choice": decision.choice[0], "params": decision.shares[0]}


def box_width(params: LatencyParams) -> int:
    """N (M G + 5): per device M G + 1 scores, of which the largest is the choice, and four shares."""
    return params.devices * (params.slots + 5)


def level_counts(params: LatencyParams) -> NDArray[np.int64]:
    """[M G + 1, 4, 4, 4, 4] for each device: the choice, and the level of each share."""
    return np.array(([params.slots + 1] + 4 * [SHARE_LEVELS]) * params.devices)


def box_decision(actions: NDArray[Any], params: LatencyParams) -> Decision:
    """M G + 1 scores, of which the largest is the choice (ties to the first), then four shares, all in [-1, 1]."""
    rows = np.asarray(actions, np.float64).reshape(-1, params.devices, params.slots + 5)
    shares = (np.clip(rows[..., params.slots + 1 :], -1, 1) + 1) / 2
    return Decision(rows[..., : params.slots + 1].argmax(axis=2), shares)


def level_decision(actions: NDArray[Any], params: LatencyParams) -> Decision:
    """A choice, and the level of each share."""
    numbers = np.asarray(actions, np.int64).reshape(-1, params.devices, 5)
    return Decision(numbers[..., 0], numbers[..., 1:] / (SHARE_LEVELS - 1))


def read_any_action(action: Any, batch: int | None, params: LatencyParams) -> Decision:
    """An action in whichever form it has, told by its type and size."""
    if isinstance(action, dict):
        return read_action(action, batch, params)
    values, states = _array(action), batch or 1
    is_whole = values.dtype.kind in "iu"
    if values.size != states * (params.devices * 5 if is_whole else box_width(params)):
        raise ActionError(
            f"found {_what(action)}, expected for each of {states} states a dict with choice and params, "
            f"{box_width(params)} numbers (FlatAction) or {params.devices * 5} whole numbers (MultiDiscreteAction): "
            f"is it for {params.devices} devices, {params.servers} servers x {params.channels} sub-channels?"
        )
    rows = values.reshape(states, -1)
    if is_whole:
        if (rows < 0).any() or (rows >= level_counts(params)).any():
            raise ActionError(f"found whole numbers {rows.min()} to {rows.max()}, expected those of the action space")
        return level_decision(rows, params)
    if not np.isfinite(rows).all():
        raise ActionError("found an action with a number that is not finite")
    return box_decision(rows, params)


def _array(values: Any) -> NDArray[Any]:
    """Numbers as an array; whole numbers of any kind stay whole."""
    try:
        found = np.asarray(values)
    except (TypeError, ValueError) as error:
        raise ActionError(f"found an action that is no array of numbers: {error}") from error
    if found.dtype.kind not in "iuf":
        raise ActionError(f"found an action that is no array of numbers, but {_what(values)}")
    return found


def _what(action: Any) -> str:
    if isinstance(action, dict):
        return f"a dict with {', '.join(map(str, action)) or 'nothing'}"
    if isinstance(action, np.ndarray):
        return f"an array of {action.dtype} of shape {action.shape}"
    return repr(action)[:80]
