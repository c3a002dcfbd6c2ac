"""The settings of `bfl.simulate` as a type, so that editors complete and check them.

Written by `python -m tests.bfl.api.make_options` from the settings themselves; a test compares them.
"""

from collections.abc import Callable
from typing import Any, Literal, TypedDict

Code = Callable[..., Any]
"""A function in place of a name"""


# fmt: off
class RunOptions(TypedDict, total=False):
    """Every setting, by its name in Python."""

    # RoundParams
    rounds: int
    edges: int
    scheme: Literal[
        "bfl",
        "bfl-no-consensus",
        "consensus-no-chain",
        "no-consensus-no-chain",
        "traditional",
        "fedavg",
    ] | str | Code
    graph: str
    weights: Literal["optimal", "paper"]
    phi: str | int
    xi: float
    max_phi: int
    planner: str | Code
    codec: Literal["fp16", "fp32", "int8"]
    filter: str | Code | list[str | Code]
    root_set: int
    deadline_s: float
    gradient_bound: float
    norm_bound: float
    term_cap: int
    plan_s: float
    close_s: float
    gossip_s: float
    verify_s: float
    model_s: float
    seal_s: float
    sign_s: float
    flag_window: int
    exclusion_rounds: int
    reputation: int
    reputation_window: int
    reputation_rounds: int
    difficulty: int
    keep_payloads: str | int
    nodes: int
    evaluate_every: int

    # DataParams
    devices: int
    seed: int
    dataset: str | Code
    data_dir: str
    label_column: str
    group_column: str
    drop_columns: str
    header: Literal["auto", "yes", "no"]
    class_names: str
    image_size: int
    hardness: float
    partition: Literal["iid", "non-iid", "dirichlet", "by-group", "quantity"] | str | Code
    labels_per_device: int
    alpha: float
    data_per_round: Literal["state", "all"]

    # TrainingParams
    model: str | Code
    hidden: str | int
    optimizer: Literal["sgd", "adam"] | str | Code
    learning_rate: float
    iterations: int
    batch: int
    engine: Literal["auto", "sequential", "stacked"]
    chunk: int
    threads: int

    # ConditionParams
    device_speeds: str
    dropout: float
    availability: str

    # AttackParams
    attack: str | tuple[Code, str] | list[str | tuple[Code, str]]
