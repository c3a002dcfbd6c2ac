"""Settings: from kebab-case keys to frozen dataclasses, or a refusal with found and expected."""

import dataclasses
from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clients.errors import ParameterError
from clients.parameters import DataParams, TrainingParams, did_you_mean, key_of, read_params, setting


@dataclass(frozen=True)
class Sample:
    """One setting of each kind."""

    count_of_things: int = setting(3, "a number", minimum=1)
    ratio: float = setting(0.5, "any number")
    scheme: str = setting(
        "alpha", "a choice", choices=("alpha", "beta"), not_yet={"gamma": "comes with the next version"}
    )


def refusal(cls: type, key: str, value: object) -> str:
    with pytest.raises(ParameterError) as caught:
        read_params(cls, {key: value})
    return str(caught.value)


def test_settings_are_read_from_kebab_case_keys() -> None:
    params = read_params(DataParams, {"data-dir": "/data", "labels-per-device": 3, "data-per-round": "all"})
    assert params == DataParams(data_dir="/data", labels_per_device=3, data_per_round="all")


def test_an_empty_mapping_gives_the_defaults() -> None:
    assert read_params(TrainingParams, {}) == TrainingParams()


def test_the_defaults_are_those_of_the_specification() -> None:
    """L4, L5: B = 25, SGD, eta = 0.1, 10 iterations."""
    params = TrainingParams()
    assert (params.batch, params.optimizer, params.learning_rate, params.iterations) == (25, "sgd", 0.1, 10)


def test_keys_of_other_parts_and_snake_case_keys_are_left_alone() -> None:
    assert read_params(DataParams, {"learning-rate": 5.0, "data_dir": "/data"}) == DataParams()


@given(st.from_regex(r"[a-z]+(_[a-z]+){0,3}", fullmatch=True))
def test_a_key_has_hyphens_where_its_field_has_underscores(name: str) -> None:
    assert "_" not in key_of(name)
    assert key_of(name).replace("-", "_") == name


@given(devices=st.integers(1, 10**6), seed=st.integers(0, 2**63 - 1), alpha=st.floats(1e-6, 1e6))
def test_numbers_survive_the_way_through_text(devices: int, seed: int, alpha: float) -> None:
    expected = DataParams(devices=devices, seed=seed, alpha=alpha)
    assert read_params(DataParams, {"devices": str(devices), "seed": str(seed), "alpha": repr(alpha)}) == expected


def test_a_whole_float_is_a_whole_number_and_a_whole_number_a_float() -> None:
    assert read_params(Sample, {"count-of-things": 4.0, "ratio": 2}) == Sample(count_of_things=4, ratio=2.0)
    assert type(read_params(Sample, {"count-of-things": 4.0}).count_of_things) is int
    assert type(read_params(Sample, {"ratio": 2}).ratio) is float


def test_what_is_no_whole_number_is_refused_where_one_is_expected(subtests: pytest.Subtests) -> None:
    cases: list[object] = [True, False, "ten", "", "2.5", 2.5, float("nan"), float("inf"), None, [1]]
    for value in cases:
        with subtests.test(value=value):
            assert refusal(Sample, "count-of-things", value) == (
                f"count-of-things: found {value!r}, expected a value of type int"
            )


def test_what_is_no_number_is_refused_where_one_is_expected(subtests: pytest.Subtests) -> None:
    cases: list[object] = [True, "fast", None, [0.1]]
    for value in cases:
        with subtests.test(value=value):
            assert refusal(TrainingParams, "learning-rate", value) == (
                f"learning-rate: found {value!r}, expected a value of type float"
            )


def test_a_learning_rate_that_is_not_positive_is_refused(subtests: pytest.Subtests) -> None:
    cases: list[object] = [float("nan"), "nan", 0.0, -0.1, float("-inf")]
    for value in cases:
        with subtests.test(value=value):
            assert refusal(TrainingParams, "learning-rate", value) == (
                f"learning-rate: found {float(str(value))}, expected at least 1e-09"
            )


def test_infinity_is_refused(subtests: pytest.Subtests) -> None:
    cases: list[object] = [float("inf"), "inf", "1e999"]
    for value in cases:
        with subtests.test(value=value):
            assert (
                refusal(TrainingParams, "learning-rate", value)
                == "learning-rate: found infinity, expected a finite number"
            )


def test_a_number_below_its_least_is_refused(subtests: pytest.Subtests) -> None:
    cases: list[tuple[type, str, int, int]] = [
        (DataParams, "devices", 0, 1),
        (DataParams, "seed", -1, 0),
        (DataParams, "labels-per-device", -2, 0),
        (TrainingParams, "iterations", 0, 1),
        (TrainingParams, "batch", -25, 1),
        (TrainingParams, "chunk", 0, 1),
        (TrainingParams, "threads", -1, 0),
    ]
    for cls, key, value, least in cases:
        with subtests.test(cls=cls, key=key, value=value, least=least):
            assert refusal(cls, key, value) == f"{key}: found {value}, expected at least {least}"
            assert read_params(cls, {key: least}) is not None


def test_a_wrong_choice_names_the_choices_and_the_nearest() -> None:
    assert refusal(DataParams, "partition", "noniid") == (
        'partition: found "noniid", expected one of iid, non-iid, dirichlet or your own as module:function '
        '(did you mean "non-iid"?)'
    )


def test_a_choice_far_from_all_others_names_no_nearest() -> None:
    assert refusal(TrainingParams, "optimizer", "lbfgs") == (
        'optimizer: found "lbfgs", expected one of sgd, adam or your own as module:function'
    )


def test_a_choice_of_a_later_version_says_so() -> None:
    assert refusal(Sample, "scheme", "gamma") == (
        'scheme: found "gamma", expected one of alpha, beta; gamma comes with the next version'
    )


def test_yes_and_no_are_values_of_no_setting(subtests: pytest.Subtests) -> None:
    all_cases: list[tuple[str, str]] = [("count-of-things", "int"), ("ratio", "float"), ("scheme", "str")]
    all_values: list[bool] = [True, False]
    for key, kind in all_cases:
        for value in all_values:
            with subtests.test(key=key, kind=kind, value=value):
                assert refusal(Sample, key, value) == f"{key}: found {value}, expected a value of type {kind}"


def test_a_number_too_large_for_a_float_is_refused(subtests: pytest.Subtests) -> None:
    cases: list[int] = [10**400, -(10**400)]
    for value in cases:
        with subtests.test(value=value):
            assert refusal(TrainingParams, "learning-rate", value) == (
                f"learning-rate: found {value}, expected a value of type float"
            )


def test_hidden_sizes_are_read_from_a_list_with_commas(subtests: pytest.Subtests) -> None:
    cases: list[tuple[str, tuple[int, ...]]] = [("", ()), ("50", (50,)), ("256,72", (256, 72)), (" 8 , 4 ,", (8, 4))]
    for text, sizes in cases:
        with subtests.test(text=text, sizes=sizes):
            assert read_params(TrainingParams, {"hidden": text}).hidden_sizes == sizes


def test_one_hidden_size_may_be_a_number() -> None:
    assert read_params(TrainingParams, {"hidden": 50}).hidden_sizes == (50,)


def test_hidden_sizes_that_are_no_positive_whole_numbers_are_refused(subtests: pytest.Subtests) -> None:
    cases: list[str] = ["0", "-5", "50,0", "fifty", "5.5", "50;72"]
    for text in cases:
        with subtests.test(text=text):
            expected = f"hidden: found {text!r}, expected positive whole numbers such as 50 or 256,72"
            with pytest.raises(ParameterError) as caught:
                _ = TrainingParams(hidden=text).hidden_sizes
            assert str(caught.value) == expected


def test_what_is_no_text_is_refused_where_text_is_expected(subtests: pytest.Subtests) -> None:
    cases: list[object] = [None, ["a"], {"a": 1}, True]
    for value in cases:
        with subtests.test(value=value):
            assert refusal(DataParams, "data-dir", value) == f"data-dir: found {value!r}, expected a value of type str"


def test_a_seed_that_no_generator_takes_is_refused() -> None:
    assert read_params(DataParams, {"seed": 2**63 - 1}).seed == 2**63 - 1
    assert refusal(DataParams, "seed", 2**64).startswith(f"seed: found {2**64}, expected at most ")


def test_nearest_proposes_a_close_word_or_nothing() -> None:
    assert did_you_mean("sequental", ("auto", "sequential")) == ' (did you mean "sequential"?)'
    assert did_you_mean("quantum", ("auto", "sequential")) == ""


def test_every_setting_has_a_help_text_and_a_default_that_its_own_check_accepts(subtests: pytest.Subtests) -> None:
    cases: list[type] = [DataParams, TrainingParams]
    for cls in cases:
        with subtests.test(cls=cls):
            fields = dataclasses.fields(cls)
            assert all(len(field.metadata["help"]) > 5 for field in fields)
            assert read_params(cls, {key_of(field.name): field.default for field in fields}) == cls()
