"""Identity, folder names and labels of runs."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from smrl.runs import identity
from smrl.runs.identity import canonical, digest, flat, label, slug, title, varying, words
from smrl.settings import make_settings

DEFAULTS: dict[str, Any] = {
    "reuse": "10",
    "seed": 0,
    "steps": 300_000,
    "batch_size": 256,
    "fresh_batches": 1,
    "n_step": 1,
    "reward_scale": 1.0,
    "windows": "partial",
    "reset_every": None,
    "actor_hidden": (256, 256),
    "learning_rate": 3e-4,
    "actor_learning_rate": None,
    "learning_rate_factor": 1.0,
    "tau": 0.005,
    "layer_norm": False,
    "squashed": True,
    "target_entropy": None,
    "exploration": "sample",
}
HYPER = list(DEFAULTS)[9:]


def settings(env: str = "Hopper-v4", algorithm: str = "sac", **changes: Any) -> dict[str, Any]:
    """Settings as `Settings.to_json` makes them, with the hyperparameters apart."""
    values = DEFAULTS | changes
    hyper = {name: value for name, value in values.items() if name in HYPER}
    rest = {name: value for name, value in values.items() if name not in HYPER}
    return {"algorithm": algorithm, "env": env, **rest, "hyper": hyper}


def test_flat_includes_the_hyperparameters() -> None:
    found = flat(settings(tau=0.01))
    assert "hyper" not in found
    assert (found["algorithm"], found["tau"], found["actor_hidden"]) == ("sac", 0.01, [256, 256])
    assert flat(found) == found
    assert isinstance(found["learning_rate_factor"], float)  # the type is kept


def test_identity_excludes_seed_steps_and_evaluations() -> None:
    assert canonical(settings(seed=1, steps=5)) == canonical(settings())
    often: dict[str, Any] = {"eval_every": 10, "eval_episodes": 1}
    assert canonical(settings(**often)) == canonical(settings(eval_every=1000, eval_episodes=10))
    assert varying([settings(**often), settings(eval_every=1000)]) == []
    on_a_device = settings(**often, real_time=True)
    for other in ({"eval_every": 1000}, {"eval_episodes": 2}):  # the device plays them
        assert canonical(on_a_device | other) != canonical(on_a_device)
    assert identity.identity(settings()).keys() == flat(settings()).keys() - {"seed", "steps"}
    for changes in ({"tau": 0.01}, {"reuse": "1"}, {"env": "Ant-v4"}, {"algorithm": "td3"}, {"reset_every": 0}):
        assert canonical(settings(**changes)) != canonical(settings()), changes


def test_identity_ignores_how_numbers_are_written() -> None:
    first = settings(learning_rate_factor=1, actor_hidden=[256.0, 256], n_step=1.0)
    assert canonical(first) == canonical(settings())
    assert digest(first) == digest(dict(reversed(settings().items())))
    assert re.fullmatch("[0-9a-f]{8}", digest(first))
    assert canonical(settings(n_step=True)) != canonical(settings(n_step=1))
    assert canonical(settings(n_step="1")) != canonical(settings(n_step=1))


@pytest.mark.parametrize(
    ("changes", "name"),
    [
        ({}, "sac-reuse10"),
        ({"seed": 5, "steps": 1, "env": "Ant-v4"}, "sac-reuse10"),
        ({"algorithm": "redq", "fresh_batches": 20, "target_entropy": -1}, "redq-reuse10-fresh20-targetentropy-1"),
        ({"reuse": "10:300000,1"}, "sac-reuse10until300000then1"),
        ({"reuse": "my_rules:auto"}, "sac-reusemy_rules.auto"),
        ({"tau": 0.01, "batch_size": 400}, "sac-reuse10-batch400-tau0.01"),
        ({"reset_every": 1_000_000}, "sac-reuse10-reset1000000"),
        ({"reset_every": 1e6}, "sac-reuse10-reset1000000"),
        ({"learning_rate": 1e-5, "learning_rate_factor": 10.0}, "sac-reuse10-lr0.00001-lrfactor10"),
        ({"actor_learning_rate": 0.0003}, "sac-reuse10-actorlr0.0003"),
        ({"tau": 0.1 + 0.2}, "sac-reuse10-tau0.30000000000000004"),
        ({"tau": 1e-30}, "sac-reuse10-tau1e-30"),
        ({"actor_hidden": (64, 64)}, "sac-reuse10-actor64x64"),
        ({"actor_hidden": ()}, "sac-reuse10-actorempty"),
        ({"layer_norm": True, "squashed": False}, "sac-reuse10-layernorm-nosquashed"),
        ({"n_step": None}, "sac-reuse10-nstepnone"),
        ({"exploration": "mean-plus-noise"}, "sac-reuse10-explorationmean-plus-noise"),
        ({"exploration": 'a/b\\c:d*e?"<>|f g.'}, "sac-reuse10-explorationa.b.c.d.e.....f.g"),
        ({"algorithm": "my_module:cem"}, "my_module.cem-reuse10"),
        ({"learning_rate_factor": 1, "actor_hidden": [256, 256]}, "sac-reuse10"),  # equal to the defaults
    ],
)
def test_slug(changes: dict[str, Any], name: str) -> None:
    assert slug(settings(**changes), DEFAULTS) == name


def test_long_slug_ends_in_the_digest() -> None:
    first, second = settings(actor_hidden=[64] * 50), settings(actor_hidden=[64] * 51)
    assert slug(first, DEFAULTS) == f"sac-reuse10-{digest(first)}"  # a value is not cut
    assert slug(first, DEFAULTS) != slug(second, DEFAULTS)
    some = settings(batch_size=400, n_step=3, windows="full", tau=0.01, exploration="mean-plus-noise")
    assert slug(some, DEFAULTS) == f"sac-reuse10-batch400-nstep3-windowsfull-tau0.01-{digest(some)}"
    assert slug(settings(algorithm="a" * 99), DEFAULTS).endswith(f"aaa-{digest(settings(algorithm='a' * 99))}")


@pytest.mark.parametrize("word", [None, "w" * 24])
@pytest.mark.parametrize("attempt", [0, 1, 2, 1000])
def test_slug_is_shorter_than_sixty_characters(word: str | None, attempt: int) -> None:
    for changes in ({"actor_hidden": [64] * 50}, {"algorithm": "a" * 99}, {"reuse": "1" * 99}, {}, {"tau": 0.01}):
        name = slug(settings(**changes), DEFAULTS, word, attempt)
        assert len(name) < 60
        assert word is None or f"-{word}" in name


def test_word_and_later_attempts() -> None:
    mine = settings(tau=0.01)
    names = [slug(mine, DEFAULTS, "best", attempt) for attempt in range(3)]
    digits = digest(mine)
    assert names == [f"sac-reuse10-tau0.01-best{end}" for end in ("", f"-{digits}", f"-{digits}-2")]


def test_varying() -> None:
    assert varying([]) == []
    assert varying([settings(), settings(seed=1, steps=5, learning_rate_factor=1)]) == []
    assert varying([settings(), settings(tau=0.01, batch_size=400), settings(reuse="1")]) == [
        "reuse",
        "batch_size",
        "tau",
    ]


def test_varying_omits_what_algorithm_or_environment_imply() -> None:
    """TQC has its own warm-up and DARC another ν on every robot, which need not be in all labels."""
    several = [settings(), settings(algorithm="tqc", n_step=5), settings("Ant-v4", tau=0.01)]
    assert varying(several) == ["algorithm", "env"]
    assert varying([*several, settings(algorithm="tqc", n_step=3)]) == ["algorithm", "env", "n_step"]


def test_setting_that_some_runs_lack_varies() -> None:
    older = settings()
    del older["n_step"]
    assert varying([older, settings()]) == ["n_step"]
    assert [label(each, ["n_step"]) for each in (older, settings())] == ["SAC, reuse 10", "SAC, reuse 10, n step 1"]


@pytest.mark.parametrize(
    ("changes", "names", "text"),
    [
        ({}, [], "SAC, reuse 10"),
        ({"reuse": "10:300000,1"}, ["algorithm", "env", "reuse"], "SAC, reuse 10 until 300,000, then 1"),
        ({"tau": 0.01}, ["tau"], "SAC, reuse 10, tau 0.01"),
        ({"target_entropy": -1.0}, ["target_entropy"], "SAC, reuse 10, target entropy −1"),
        ({"exploration": "mean-plus-noise"}, ["exploration"], "SAC, reuse 10, exploration mean-plus-noise"),
        ({"layer_norm": True}, ["layer_norm", "squashed"], "SAC, reuse 10, layer norm, squashed"),
        ({"squashed": False}, ["squashed", "reset_every"], "SAC, reuse 10"),  # not used
        ({"algorithm": "my_module:cem", "reuse": "rules:auto"}, [], "my_module:cem, reuse rules:auto"),
        ({"actor_hidden": (64, 64)}, ["actor_hidden", "critics"], "SAC, reuse 10, actor 64×64"),
    ],
)
def test_label(changes: dict[str, Any], names: list[str], text: str) -> None:
    assert label(settings(**changes), names) == text


def test_label_leaves_usual_values_out() -> None:
    mine, names = settings(tau=0.01, squashed=False, reset_every=None), ["tau", "squashed", "reset_every", "n_step"]
    assert label(mine, names, DEFAULTS) == "SAC, reuse 10, tau 0.01, no squashed"
    assert label(mine, names, DEFAULTS | {"tau": 0.01}) == "SAC, reuse 10, no squashed"
    assert label(mine, names, {"reset_every": 5}) == "SAC, reuse 10, tau 0.01, reset none, n step 1"


@given(st.floats(allow_nan=False, allow_infinity=False) | st.integers())
def test_words_lose_no_digits(value: float) -> None:
    text = words(value).replace(",", "").replace("−", "-")
    assert type(value)(text) == value
    if 1e-15 < abs(value) < 1e15:
        assert "e" not in text


def test_missing_setting_equals_none_and_false() -> None:
    old = {"algorithm": "sac", "env": "Hopper-v4", "reuse": "10", "seed": 0, "steps": 10, "hyper": {"tau": 0.01}}
    unused = old | {"max_episode_steps": None, "normalise_observations": False}
    assert canonical(old) == canonical(unused)
    assert varying([old, unused]) == []
    for used in ({"max_episode_steps": 100}, {"max_episode_steps": 0}, {"normalise_observations": True}):
        assert canonical(old) != canonical(old | used), used
        assert varying([old, old | used]) == list(used)


def test_a_setting_that_did_not_exist_had_its_first_value() -> None:
    """A run from before network and others existed is averaged with one that has their first values."""
    old, new = settings(), settings(network="mlp", initial_temperature=1, target_entropy_factor=-1.0)
    assert canonical(old) == canonical(new)
    assert not varying([old, new])
    other = settings(network="simba")
    assert canonical(old) != canonical(other)
    assert varying([old, other]) == ["network"]


RUNS = sorted((Path(__file__).parents[2] / "results").rglob("config.json"))


@pytest.mark.parametrize("config", RUNS, ids=lambda config: config.parents[1].name)
def test_settings_of_earlier_versions_are_the_same_run_today(config: Path) -> None:
    """A new setting whose default is a value must have it among the first values."""
    saved = json.loads(config.read_text())["settings"]
    values = flat(saved)
    today = make_settings(values.pop("algorithm"), values.pop("env"), **values)
    assert canonical(today.to_json()) == canonical(saved)


def test_title() -> None:
    assert title(settings(reuse="10:300000,1", seed=3)) == "SAC, reuse 10 until 300,000, then 1, Hopper-v4, seed 3"
    assert title(flat(settings("dmc/cheetah-run", "drqv2"))) == "DrQ-v2, reuse 10, dmc/cheetah-run, seed 0"
