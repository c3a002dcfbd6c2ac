"""Configuration: defaults < TOML file < environment (BFL_...) < flags. Unknown keys are errors."""

import dataclasses
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tomli_w

from bfl.errors import ConfigError
from clients.errors import ParameterError
from clients.parameters import DataParams, TrainingParams, did_you_mean, key_of, read_params, setting
from clients.plugins import OPEN_POINTS, OpenPoint, foreign_plugins, permit
from edge_servers.parameters import RoundParams, Settings
from policy.files import read_bounded_text


@dataclass(frozen=True)
class AttackParams:
    """Who misbehaves; no setting of a network, whose honest part knows nothing of it."""

    attack: str = setting(
        "", "who misbehaves when, for example iterate-noise@20,60:server=1,step=3 (see docs/attacks.md)"
    )


@dataclass(frozen=True)
class RunSettings(Settings):
    """What `bfl simulate` is told."""

    attacks: AttackParams = AttackParams()

    def flat(self) -> dict[str, Any]:
        """Every setting by its key: what `config.toml` holds."""
        own = dataclasses.asdict(self.attacks)
        return super().flat() | {key_of(name): value for name, value in own.items()}

    @classmethod
    def read(cls, flat: Mapping[str, object]) -> "RunSettings":
        """The reverse of `flat`; settings that are not in it have their defaults."""
        network = Settings.read(flat)
        return cls(network.rounds, network.data, network.training, read_params(AttackParams, flat))


OPEN_POINTS["attack"] = OpenPoint((), separator=";", tail="@")
PARAMS = (RoundParams, DataParams, TrainingParams, AttackParams)
ENVIRONMENT_PREFIX = "BFL_"
MOST_BYTES = 1 << 16
"""Of a file with settings; all of them take 2 KB"""
TOKEN_VARIABLE, PASSWORD_VARIABLE = "BFL_RPC_TOKEN", "BFL_KEY_PASSWORD"
"""Secrets of a node: in the environment, but no settings of a run."""
_OTHER_VARIABLES = (TOKEN_VARIABLE, PASSWORD_VARIABLE, "BFL_CHROMIUM", "BFL_APT")
"""No settings; the last two are for `./run.sh test`"""


def all_fields() -> dict[str, "dataclasses.Field[Any]"]:
    """Every setting by its key, in the order of the help."""
    return {key_of(field.name): field for cls in PARAMS for field in dataclasses.fields(cls)}


def read_settings(
    file: Path | None = None,
    environment: Mapping[str, str] | None = None,
    flags: Mapping[str, object] | None = None,
    allow_plugins: bool = False,
) -> RunSettings:
    """The settings of a run; each source overrides the one before it. Code is named by people, not by the file (Q4)."""
    in_file = read_toml(file) if file else {}
    of_person = read_environment(environment or {}) | dict(flags or {})
    for source, values in ((str(file), in_file), ("flags", of_person)):
        check_keys(values, source)
    if not allow_plugins:
        check_plugins({key: value for key, value in in_file.items() if key not in of_person}, str(file))
    permit(in_file | of_person)
    try:
        return RunSettings.read(in_file | of_person)
    except ParameterError as error:
        raise ConfigError(str(error)) from error


def check_keys(values: Mapping[str, object], source: str) -> None:
    """Raise `ConfigError` for a key nobody knows, naming the nearest one that is known."""
    known = all_fields()
    for key in values:
        if key not in known:
            raise ConfigError(f'{source}: unknown key "{key}"{did_you_mean(key, known)}')


def check_plugins(in_file: Mapping[str, object], source: str) -> None:
    """Raise `ConfigError` where a file names code of others to run."""
    for key, name in foreign_plugins(in_file).items():
        ours = ", ".join(OPEN_POINTS[key].names) or "a kind of ours"
        raise ConfigError(
            f"{source}: found {key} = {name!r:.200}, which is code to run, in a file; expected {ours}. "
            "If you know that code, say so with --allow-plugins (in a kit: allow-plugins = true)"
        )


def check_code(settings: Settings, allows_plugins: bool, where: str) -> None:
    """Permit the code that a network's settings name, or raise `ConfigError` where its owner has not allowed it."""
    if not allows_plugins:
        check_plugins(settings.flat(), where)
    permit(settings.flat())


def read_toml(path: Path) -> dict[str, object]:
    """The keys of a TOML file."""
    try:
        return tomllib.loads(read_bounded_text(path, MOST_BYTES))
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read ({error.strerror})") from error
    except (ValueError, RecursionError) as error:  # no TOML, no UTF-8, a number of 5,000 digits, brackets in brackets
        raise ConfigError(f"{path}: is not TOML ({error})") from error


def read_environment(environment: Mapping[str, str]) -> dict[str, object]:
    """The settings in variables such as BFL_ROUNDS and BFL_DATA_DIR."""
    settings: dict[str, object] = {}
    variables = {ENVIRONMENT_PREFIX + key.upper().replace("-", "_"): key for key in all_fields()}
    for name, value in environment.items():
        if not name.startswith(ENVIRONMENT_PREFIX) or name in _OTHER_VARIABLES:
            continue
        if name not in variables:
            raise ConfigError(f"environment: no setting is called {name}{did_you_mean(name, variables)}; unset it")
        settings[variables[name]] = value
    return settings


def write_toml(settings: RunSettings, path: Path) -> None:
    """All settings of a run, so that `--config` with this file repeats it."""
    path.write_text(tomli_w.dumps(settings.flat()), encoding="utf-8")
