"""Sweeps from keywords: which runs they contain, their titles, and which arguments are refused."""

from typing import Any

import pytest

from smrl.errors import SmrlError
from smrl.presets import resolve
from smrl.studies.sweep import slug, sweep, titles


def values(found: list[Any], *names: str) -> list[tuple[Any, ...]]:
    """Return the values of these settings, run by run."""
    return [tuple(getattr(one, name, None) or getattr(one.hyper, name, None) for name in names) for one in found]


def test_all_combinations_with_all_seeds() -> None:
    found = sweep("sac", "Hopper-v4", reuse=[1, 10], tau=[0.005, 0.01], batch_size=400, seeds=range(5, 7))
    assert values(found, "reuse", "tau", "seed") == [
        (reuse, tau, seed) for reuse in ("1", "10") for tau in (0.005, 0.01) for seed in (5, 6)
    ]
    assert {one.batch_size for one in found} == {400}
    assert found[0] == resolve("sac", "Hopper-v4", reuse=1, tau=0.005, batch_size=400, seed=5)


def test_a_number_of_seeds_starts_at_0() -> None:
    assert [one.seed for one in sweep("sac", "Hopper-v4", reuse=1, seeds=3)] == [0, 1, 2]
    assert [one.seed for one in sweep("sac", "Hopper-v4", reuse=1, seeds=(4, 2))] == [4, 2]


def test_several_algorithms_and_settings_that_only_some_have() -> None:
    found = sweep(("sac", "td3"), "Hopper-v4", reuse=10, noise_clip=[0.2, 0.3], target_entropy=[-1, None], seeds=1)
    assert [(one.algorithm, getattr(one.hyper, "noise_clip", None)) for one in found] == [
        ("sac", None),
        ("sac", None),
        ("td3", 0.2),
        ("td3", 0.3),
    ]
    assert [one.hyper.target_entropy for one in found[:2]] == [-1, None]


def test_default_compares_reuse_1_with_the_preset() -> None:
    assert values(sweep(["sac", "redq"], "Hopper-v4", seeds=1), "algorithm", "reuse") == [
        ("sac", "1"),
        ("sac", "10"),
        ("redq", "1"),
        ("redq", "5"),
    ]
    assert values(sweep("sac", "Hopper-v4", preset="warm-up", seeds=1), "reuse") == [("1",), ("10:300000,1",)]


def test_several_presets() -> None:
    found = sweep("sac", "Hopper-v4", preset=["paper", "lr", "utd"], seeds=1)
    assert values(found, "reuse", "learning_rate_factor", "fresh_batches") == [
        ("1", 1.0, 1),
        ("10", 1.0, 1),
        ("1", 10.0, 1),
        ("1", 1.0, 10),
    ]


def test_a_list_is_several_values_and_a_tuple_is_one() -> None:
    one = sweep("sac", "Hopper-v4", reuse=1, seeds=1, actor_hidden=(64, 32))
    assert [found.hyper.actor_hidden for found in one] == [(64, 32)]
    two = sweep("sac", "Hopper-v4", reuse=1, seeds=1, actor_hidden=[(64, 32), (8,)], layer_norm=[False, True])
    assert [(found.hyper.actor_hidden, found.hyper.layer_norm) for found in two] == [
        ((64, 32), False),
        ((64, 32), True),
        ((8,), False),
        ((8,), True),
    ]


def test_duplicate_runs_are_removed() -> None:
    assert len(sweep("sac", "Hopper-v4", reuse=[1, 1, "1"], tau=[0.005, 5e-3], seeds=[0, 0])) == 1
    assert len(sweep(["sac", "sac"], "Hopper-v4", preset="lr", seeds=1)) == 1, "its reuse is 1"


def test_defaults_of_task_and_preset_are_kept() -> None:
    (one,) = sweep("redq", "HalfCheetah-v4", reuse=1, tau=[0.01], seeds=1)
    assert (one.fresh_batches, one.hyper.target_entropy) == (20, -3)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"tua": [1]}, "no algorithm of sac, td3 has a setting 'tua' to sweep; did you mean tau"),
        ({"nu": 0.1}, "has a setting 'nu'"),
        ({"seed": [1, 2]}, "give seeds"),
        ({"seeds": 0}, "seeds must be a whole number of at least 1, not 0"),
        ({"seeds": []}, "seeds needs at least one value"),
        ({"seeds": [-1]}, "seed must"),
        ({"tau": []}, "tau needs at least one value"),
        ({"tau": [0.1, 2]}, "tau must be a number in"),
        ({"actor_hidden": [64, 64]}, "actor_hidden must be"),
        ({"steps": [1000, 5000, 10_000]}, "nothing would be learned"),
        ({"steps": [10_000, 20_000]}, "give one number of steps"),
        ({"preset": "lr"}, "is not for td3"),
        ({"preset": ["paper", "autors"]}, "did you mean authors"),
        ({"preset": ()}, "preset needs at least one value"),
        ({"reuse": [1, 0]}, "reuse must be at least 1"),
    ],
)
def test_refused(given: dict[str, Any], message: str) -> None:
    with pytest.raises(SmrlError) as error:
        sweep(["sac", "td3"], "Hopper-v4", **given)
    assert message in str(error.value)


def test_no_such_algorithm() -> None:
    with pytest.raises(SmrlError, match="did you mean sac"):
        sweep(["td3", "sca"], "Hopper-v4")
    with pytest.raises(SmrlError, match="at least one"):
        sweep([], "Hopper-v4")


def test_titles_name_what_varies() -> None:
    assert titles(sweep(["sac", "td3"], "Hopper-v4", reuse=10, tau=[0.005, 0.01], seeds=1)) == [
        "SAC, reuse 10, tau 0.005, seed 0",
        "SAC, reuse 10, tau 0.01, seed 0",
        "TD3, reuse 10, tau 0.005, seed 0",
        "TD3, reuse 10, tau 0.01, seed 0",
    ]


def test_titles_of_several_tasks_are_unique() -> None:
    runs = [one for env in ("Pendulum-v1", "MountainCarContinuous-v0") for one in sweep("sac", env, reuse=10, seeds=2)]
    assert len(set(titles(runs))) == 4
    assert titles(runs)[0] == "Pendulum-v1, SAC, reuse 10, seed 0"


def test_slugs_name_what_varies_and_differ_between_sweeps() -> None:
    sweeps = [
        sweep("sac", "Hopper-v4", reuse=[1, 10]),
        sweep("sac", "Hopper-v4", reuse=[1, 5]),
        sweep("sac", "Hopper-v4", reuse=[1, 10], tau=0.01),
        sweep("sac", "Hopper-v4", reuse=[1, 10], tau=[0.005, 0.01]),
        sweep(["sac", "td3"], "Hopper-v4", reuse=[1, 10], tau=[0.005, 0.01]),
    ]
    names = [slug(one) for one in sweeps]
    assert len(set(names)) == len(names)
    assert names[3].startswith("sac-reuse-tau-")
    assert names[4].startswith("sac-td3-reuse-tau-")
    assert slug(sweep("sac", "Hopper-v4", reuse=[10, 1], seeds=5, steps=400_000)) == names[0], (
        "the same, with more seeds"
    )


@pytest.mark.parametrize("name", ["eval_every", "eval_episodes"])
def test_runs_that_differ_only_in_evaluations_are_one_run(name: str) -> None:
    axis: dict[str, Any] = {name: [5, 20]}
    flag = f"--{name.replace('_', '-')}"
    with pytest.raises(SmrlError, match=f"differ only in {name} .5 and 20. are one run, .* such as {flag} 5"):
        sweep("sac", "Hopper-v4", seeds=1, reuse=1, steps=10_000, **axis)
