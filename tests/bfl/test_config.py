"""Configuration: defaults < TOML file < environment < flags, and what is refused."""

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bfl.config import AttackParams, RunSettings, all_fields, read_settings, write_toml
from bfl.errors import ConfigError
from clients.parameters import DataParams, TrainingParams
from edge_servers.parameters import RoundParams

maybe_rounds = st.none() | st.integers(1, 10**6)
any_text = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
positive = st.floats(1e-6, 1e6)


def toml(folder: Path, text: str) -> Path:
    """A TOML file with this text."""
    path = folder / "my.toml"
    path.write_text(text, encoding="utf-8")
    return path


def test_without_any_source_the_settings_are_the_defaults() -> None:
    assert read_settings() == RunSettings(RoundParams(), DataParams(), TrainingParams(), AttackParams())


def test_each_source_overrides_the_one_before_it(tmp_path: Path) -> None:
    file = toml(tmp_path, "rounds = 7\nseed = 7\ndevices = 7\n")
    environment = {"BFL_SEED": "8", "BFL_DEVICES": "8", "HOME": "/root"}
    settings = read_settings(file, environment, {"devices": 9})
    assert (settings.rounds.edges, settings.rounds.rounds, settings.data.seed, settings.data.devices) == (3, 7, 8, 9)


@given(in_toml=maybe_rounds, in_environment=maybe_rounds, in_flags=maybe_rounds)
def test_the_last_source_that_says_something_wins(
    in_toml: int | None, in_environment: int | None, in_flags: int | None, tmp_path_factory: pytest.TempPathFactory
) -> None:
    file = toml(tmp_path_factory.mktemp("config"), "" if in_toml is None else f"rounds = {in_toml}")
    environment = {} if in_environment is None else {"BFL_ROUNDS": str(in_environment)}
    flags = {} if in_flags is None else {"rounds": in_flags}
    said = [rounds for rounds in (100, in_toml, in_environment, in_flags) if rounds is not None]
    assert read_settings(file, environment, flags).rounds.rounds == said[-1]


def test_an_environment_variable_spells_a_hyphen_as_an_underscore() -> None:
    settings = read_settings(environment={"BFL_DATA_PER_ROUND": "all", "BFL_LEARNING_RATE": "0.25"})
    assert (settings.data.data_per_round, settings.training.learning_rate) == ("all", 0.25)


def test_a_number_in_toml_may_stand_for_a_setting_that_is_text(tmp_path: Path) -> None:
    assert read_settings(toml(tmp_path, "phi = 7")).rounds.phi == "7"


@pytest.mark.parametrize(
    ("phi", "is_auto", "first"), [("5", False, 5), ("0", False, 0), ("auto", True, 5), ("auto:7", True, 7)]
)
def test_phi_is_a_number_or_auto_which_may_start_with_one(phi: str, is_auto: bool, first: int) -> None:
    rounds = read_settings(flags={"phi": phi}).rounds
    assert (rounds.is_auto_phi, rounds.first_phi) == (is_auto, first)


def test_an_unknown_key_of_a_toml_file_names_the_file_and_the_nearest_key(tmp_path: Path) -> None:
    file = toml(tmp_path, "roudns = 3")
    message = f'{file}: unknown key "roudns" (did you mean "rounds"?)'
    with pytest.raises(ConfigError, match=f"^{re.escape(message)}$"):
        read_settings(file)


def test_an_unknown_variable_names_the_nearest_key() -> None:
    message = 'environment: no setting is called BFL_ROUDNS (did you mean "BFL_ROUNDS"?); unset it'
    with pytest.raises(ConfigError, match=f"^{re.escape(message)}$"):
        read_settings(environment={"BFL_ROUDNS": "3"})


def test_the_secrets_of_a_node_are_no_settings() -> None:
    assert read_settings(environment={"BFL_RPC_TOKEN": "a", "BFL_KEY_PASSWORD": "b"}) == read_settings()


def test_an_unknown_flag_names_the_nearest_key() -> None:
    with pytest.raises(ConfigError, match=r'^flags: unknown key "learningrate" \(did you mean "learning-rate"\?\)$'):
        read_settings(flags={"learningrate": 0.1})


def test_a_key_that_resembles_nothing_gets_no_suggestion() -> None:
    with pytest.raises(ConfigError, match=r'^flags: unknown key "zzzzzz"$'):
        read_settings(flags={"zzzzzz": 1})


def test_a_key_that_a_later_source_would_override_is_refused_all_the_same(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="roudns"):
        read_settings(toml(tmp_path, "roudns = 3"), {"BFL_ROUNDS": "4"}, {"rounds": 5})


@pytest.mark.parametrize("text", ["rounds 3", "rounds = 3\nrounds = 4", "[rounds", "rounds = "])
def test_a_file_that_is_not_toml_is_refused_by_its_name(tmp_path: Path, text: str) -> None:
    file = toml(tmp_path, text)
    with pytest.raises(ConfigError, match=rf"^{re.escape(str(file))}: is not TOML \(.+\)$"):
        read_settings(file)


def test_a_file_that_is_not_even_text_is_refused_by_its_name(tmp_path: Path) -> None:
    file = tmp_path / "picture.toml"
    file.write_bytes(b"\x89PNG\xff")
    with pytest.raises(ConfigError, match=r"picture\.toml: is not TOML"):
        read_settings(file)


def test_a_missing_file_is_refused_by_its_name(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"missing\.toml: cannot be read \(No such file or directory\)$"):
        read_settings(tmp_path / "missing.toml")


def test_a_folder_in_place_of_a_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"cannot be read \(Is a directory\)$"):
        read_settings(tmp_path)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('rounds = "five"', "rounds: found 'five', expected a value of type int"),
        ("rounds = 2.5", "rounds: found 2.5, expected a value of type int"),
        ("rounds = nan", "rounds: found nan, expected a value of type int"),
        ("rounds = true", "rounds: found True, expected a value of type int"),
        ("rounds = [1, 2]", "rounds: found [1, 2], expected a value of type int"),
        ("[rounds]\nmany = 3", "rounds: found {'many': 3}, expected a value of type int"),
        ("rounds = 0", "rounds: found 0, expected at least 1"),
        ("alpha = nan", "alpha: found nan, expected at least 1e-06"),
        ("learning-rate = inf", "learning-rate: found infinity, expected a finite number"),
        ("optimizer = false", "optimizer: found False, expected a value of type str"),
        ('phi = "five"', 'phi: found "five", expected a whole number or auto'),
        ("phi = -1", 'phi: found "-1", expected a whole number or auto'),
        ('phi = "auto:many"', 'phi: found "auto:many", expected a whole number or auto'),
        ('phi = "automatic"', 'phi: found "automatic", expected a whole number or auto'),
        (f"learning-rate = {10**400}", "expected a value of type float"),
        (
            'partition = "noniid"',
            'expected one of iid, non-iid, dirichlet or your own as module:function (did you mean "non-iid"?)',
        ),
        ("data-dir = ['a', 'b']", "data-dir: found ['a', 'b'], expected a value of type str"),
    ],
)
def test_a_value_of_the_wrong_type_or_size_says_what_was_found_and_expected(
    tmp_path: Path, text: str, message: str
) -> None:
    with pytest.raises(ConfigError, match=re.escape(message)):
        read_settings(toml(tmp_path, text))


def test_a_wrong_value_in_the_environment_says_what_was_found_and_expected() -> None:
    with pytest.raises(ConfigError, match=r"^rounds: found 'many', expected a value of type int$"):
        read_settings(environment={"BFL_ROUNDS": "many"})


def test_every_setting_has_a_key_of_its_own_and_a_help_text() -> None:
    fields = all_fields()
    assert list(fields) == list(RunSettings().flat())
    assert [key for key, field in fields.items() if not field.metadata["help"]] == []


@given(
    rounds=st.integers(1, 10**9),
    seed=st.integers(0, 2**63 - 1),
    xi=positive,
    alpha=positive,
    learning_rate=positive,
    phi=st.sampled_from(["auto", "auto:7"]) | st.integers(0, 100).map(str),
    partition=st.sampled_from(["iid", "non-iid", "dirichlet"]),
    data_dir=any_text,
    model=any_text,
    attack=any_text,
)
def test_what_is_written_to_toml_is_read_back(
    tmp_path_factory: pytest.TempPathFactory,
    rounds: int, seed: int, xi: float, alpha: float, learning_rate: float, phi: str, partition: str, data_dir: str,
    model: str, attack: str,
) -> None:  # fmt: skip
    settings = RunSettings(
        RoundParams(rounds=rounds, xi=xi, phi=phi),
        DataParams(seed=seed, alpha=alpha, partition=partition, data_dir=data_dir),
        TrainingParams(model=model, learning_rate=learning_rate),
        AttackParams(attack),
    )
    path = tmp_path_factory.mktemp("config") / "config.toml"
    write_toml(settings, path)
    assert read_settings(path, allow_plugins=True) == settings
