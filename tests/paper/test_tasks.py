"""The paper's task lists: their lengths, their ids, and that their environments can be made."""

import contextlib
import re
from pathlib import Path

import pytest

from smrl.envs import catalogue
from smrl.envs.make import make
from smrl.errors import SmrlError
from smrl.paper.tasks import GUESSED, LISTS, NAMED, find

FAMILIES = {"gym": "Gym MuJoCo", "dmc": "DeepMind Control", "pybullet": "PyBullet"}
LATER = ("dmc-pixels", "atari")  # they need a renderer and an extra

# The names in the paper's text and tables for each list.
IN_THE_PAPER = {
    "gym": ("Hopper", "Walker2d", "HalfCheetah", "Ant"),
    "dmc": ("cheetah-run", "fish-swim", "finger-turn-hard", "reacher-hard"),
    "dmc-main": (),
    "dmc-1m": ("finger-turn-hard", "reacher-hard"),
    "dmc-utd": ("cheetah-run", "fish-swim"),
    "dmc-pixels": ("cartpole-swingup", "cheetah-run", "cup-catch", "finger-spin", "reacher-easy", "walker-walk"),
    "pybullet": (),
    "atari": ("Pong", "Breakout", "BeamRider", "SpaceInvaders"),
}


def test_lengths_of_the_lists() -> None:
    counts = {name: len(set(found.tasks)) for name, found in LISTS.items()}
    assert counts == {
        **{"gym": 4, "dmc": 20, "dmc-main": 8, "dmc-1m": 16, "dmc-utd": 4},
        **{"dmc-pixels": 6, "pybullet": 4, "atari": 4},
    }
    assert all(len(found.tasks) == counts[name] for name, found in LISTS.items()), "no task twice"


@pytest.mark.parametrize("name", LISTS)
def test_every_task_is_marked(name: str) -> None:
    marks = dict(find(name).marked())
    assert tuple(marks) == find(name).tasks
    assert set(marks.values()) <= {NAMED, GUESSED}
    named = [task for task, mark in marks.items() if mark == NAMED]
    plain = {task.rpartition("/")[2].replace("ball_in_", "").replace("_", "-") for task in named}
    assert {task.removesuffix("-v4").removesuffix("NoFrameskip") for task in plain} == set(IN_THE_PAPER[name])


@pytest.mark.parametrize("name", ["dmc-main", "dmc-1m", "dmc-utd"])
def test_lists_of_the_suite_are_subsets_of_dmc(name: str) -> None:
    assert set(find(name).tasks) < set(find("dmc").tasks)


@pytest.mark.parametrize("name", [name for name in LISTS if name not in LATER])
def test_all_tasks_can_be_made_by_the_ids_that_smrl_lists(name: str) -> None:
    family = FAMILIES[name.partition("-")[0]]
    if not catalogue.FAMILIES[family].is_there:
        pytest.skip("is an extra")
    assert set(find(name).tasks) <= set(catalogue.ids(family)), "other spellings would be other runs"
    for task in find(name).tasks if name in FAMILIES else ():  # the others are among these
        with contextlib.closing(make(task)) as environment:
            assert environment.reset(0).shape == environment.spec.obs.shape


def test_unknown_list_is_refused() -> None:
    with pytest.raises(SmrlError, match=r"no task list 'dmc-utb' among gym, dmc, .*; did you mean dmc-utd\?"):
        find("dmc-utb")


def test_document_has_the_same_counts() -> None:
    text = (Path(__file__).parents[2] / "docs" / "environments.md").read_text()
    rows = re.findall(r"^\| `([\w-]+)` \| (\d+) \| (\d+) \|", text, re.MULTILINE)
    assert rows == [(name, str(len(found.tasks)), str(len(found.named))) for name, found in LISTS.items()]
