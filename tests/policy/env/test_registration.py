"""gymnasium finds the environment by its name, in a process that has imported nothing of ours."""

import subprocess
import sys
import warnings
from pathlib import Path

import gymnasium
from gymnasium.utils.env_checker import check_env

from policy.env import ENV_ID
from policy.env.wrappers import FlatAction, MultiDiscreteAction


def fresh_process(program: str, folder: Path) -> str:
    """What a program prints, run from a folder that has none of our packages."""
    done = subprocess.run([sys.executable, "-c", program], cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_a_name_is_enough_in_a_fresh_process(tmp_path: Path) -> None:
    program = (
        "import gymnasium\n"
        "env = gymnasium.make('policy.env:bfl/EdgeOffload-v0', devices=3)\n"
        "env.reset(seed=0)\n"
        "print(env.step(env.action_space.sample())[4]['n_off'] <= 3, env.observation_space.shape)\n"
        "print(gymnasium.make_vec('bfl/EdgeOffload-v0', num_envs=4).reset(seed=0)[0].shape)\n"
    )
    assert fresh_process(program, tmp_path) == "True (122,)\n(4, 1175)"


def test_an_import_is_enough_whoever_comes_first(tmp_path: Path) -> None:
    program = (
        "import policy.env\nimport gymnasium\nprint(gymnasium.make('bfl/EdgeOffload-v0').unwrapped.params.devices)"
    )
    assert fresh_process(program, tmp_path) == "30"


def test_who_has_no_gymnasium_can_still_observe_and_read_actions(tmp_path: Path) -> None:
    program = (
        "import sys\nsys.modules['gymnasium'] = None\nimport policy.own_agents, policy.actor.planner\nprint('fine')"
    )
    assert fresh_process(program, tmp_path) == "fine"


def test_gymnasium_has_nothing_to_say_of_the_wrappers() -> None:
    with warnings.catch_warnings():
        warnings.filterwarnings("error")
        warnings.filterwarnings("ignore", message=".*different from the unwrapped version.*")
        for wrapper in (FlatAction, MultiDiscreteAction):
            check_env(wrapper(gymnasium.make(ENV_ID, devices=3).unwrapped), skip_render_check=True)
