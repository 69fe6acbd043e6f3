"""Validation of settings by their types."""

import dataclasses
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import smrl
from smrl.algorithms import registry
from smrl.errors import SmrlError
from smrl.settings import RunOptions, from_json, make_settings, names

WRONG: dict[str, tuple[str, Any, str]] = {
    "text for steps": ("sac", {"steps": "100"}, r"^steps must be a whole number of at least 1, not '100'\.$"),
    "a fraction of a step": ("sac", {"steps": 1e5}, "steps must be a whole number of at least 1, not 100000.0"),
    "a truth value for a number": ("sac", {"batch_size": True}, "batch_size must be a whole number"),
    "one layer size without a tuple": ("sac", {"actor_hidden": 64}, "actor_hidden must be one or more positive layer"),
    "no layers": ("sac", {"actor_hidden": ()}, "actor_hidden must be one or more positive layer sizes"),
    "an empty layer": ("sac", {"critic_hidden": (64, 0)}, "critic_hidden must be one or more positive layer sizes"),
    "an unknown choice": ("sac", {"exploration": "mean_plus_noise"}, "exploration must be sample or mean-plus-noise"),
    "an unknown phase": ("sac", {"warmup_actions": "none"}, "warmup_actions must be uniform or policy, not 'none'"),
    "None where a number is needed": ("sac", {"tau": None}, r"tau must be a number in \(0, 1\], not None"),
    "not a number": ("sac", {"learning_rate": float("nan")}, "learning_rate must be a positive number, not nan"),
    "infinity": ("sac", {"learning_rate": float("inf")}, "learning_rate must be a positive number, not inf"),
    "a number for a truth value": ("sac", {"layer_norm": 1}, "layer_norm must be True or False, not 1"),
    "a seed below 0": ("sac", {"seed": -1}, r"seed must be a whole number in \[0, 2\^32\)"),
    "a seed of 2^32": ("sac", {"seed": 2**32}, r"seed must be a whole number in \[0, 2\^32\)"),
    "a list for M": ("sac", {"reuse": [1, 10]}, "reuse must be a whole number or a text"),
    "a discount above 1": ("sac", {"gamma": 1.5}, r"gamma must be a number in \[0, 1\], not 1.5"),
    "an array for a number": ("td3", {"delay": np.array([1, 2])}, "delay must be a whole number of at least 1"),
    "more steps than JAX can count": ("sac", {"steps": 2**31}, r"at least 1 \(at most 2,147,483,647\), not 2147483648"),
    "too many updates": ("sac", {"reuse": 3_000_000_000}, "reuse must be at most 1,000,000, not 3000000000"),
    "too many updates in a schedule": (
        "sac",
        {"reuse": "10:20,2000000"},
        "reuse must be at most 1,000,000, not 2000000",
    ),
    "too long a schedule": ("sac", {"reuse": ",".join(f"1:{k}" for k in range(1, 200)) + ",1"}, "at most 500 long"),
    "a layer of 10^10 units": ("sac", {"actor_hidden": (10**10,)}, r"layer sizes \(at most 65,536\)"),
    "a hundred layers": ("sac", {"actor_hidden": (4,) * 100}, r"layer sizes \(at most 64 long\)"),
    "an endless n-step return": ("sac", {"n_step": 1_000_000}, r"n_step must be .* \(at most 1,000\)"),
    "a million environments": ("sac", {"envs": 10**6}, r"envs must be .* \(at most 1,000\)"),
    "observations of zeros": ("sac", {"pad_observations": 10**9}, r"pad_observations must be .* \(at most 65,536\)"),
    "an image of 10^9 pixels": ("sac_pixels", {"image_size": 32_000}, r"image_size must be .* \(at most 1,000\)"),
    "too many critics": ("redq", {"critics": 10**6}, r"critics must be .* \(at most 1,000\)"),
    "an integer of 5,000 digits": ("sac", {"steps": 10**5000}, "steps must be .*, not an object of type int"),
    "too many evaluations": ("sac", {"steps": 10**6, "eval_every": 1}, "at most 50,000 evaluations, not 1,000,000"),
    "no such setting": ("sac", {"tauu": 0.1}, "has no setting 'tauu'; did you mean tau"),
    "another algorithm's setting": ("sac", {"nu": 0.1}, "sac has no setting 'nu'"),
}


@pytest.mark.parametrize("case", WRONG)
def test_invalid_settings_are_refused(case: str, tmp_path: Path) -> None:
    algorithm, settings, message = WRONG[case]
    with pytest.raises(SmrlError, match=message):
        make_settings(algorithm, "Pendulum-v1", **settings)
    with pytest.raises(SmrlError, match=message):
        smrl.train(algorithm, "Pendulum-v1", **settings, runs=tmp_path)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"threads": 0}, "threads must be a whole number from 1 to 1,024 or None, not 0"),
        ({"threads": "two"}, "threads must be"),
        ({"max_minutes": 0}, "max_minutes must be a positive number or None"),
        ({"checkpoint_seconds": -1}, "checkpoint_seconds must be a number of at least 0"),
        ({"threads": 2**31}, r"threads must be .* to 1,024 or None, not 2147483648"),
        ({"runs": 3}, "runs must be a path, not 3"),
        ({"runs": "a" * 300}, r"runs must be a path \(at most 255 long\), not 'aaa"),
        ({"runs": "a\0"}, r"runs must be a path, not 'a\\x00'"),
        ({"runs": "\ud800"}, r"runs must be a path, not '\\ud800'"),
        ({"quiet": "yes"}, "quiet must be True or False"),
        ({"wandb": True}, "wandb must be a text"),
        ({"stop_at": float("nan")}, "stop_at must be a finite number or None"),
    ],
)
def test_invalid_options_are_refused(values: dict[str, Any], message: str) -> None:
    with pytest.raises(SmrlError, match=message):
        RunOptions(**values)


def test_values_are_converted_to_their_types() -> None:
    one = make_settings("sac", "Pendulum-v1", steps=np.int64(9000), tau=1, actor_hidden=[64, np.int32(32)], reuse=10)
    two = make_settings("sac", "Pendulum-v1", steps=9000, tau=1.0, actor_hidden=(64, 32), reuse="10")
    assert one == two
    assert type(one.steps) is int
    assert type(one.hyper.tau) is float
    assert one.reuse == make_settings("sac", "Pendulum-v1", reuse="010").reuse == "10"
    assert RunOptions(runs="x").runs == Path("x")  # type: ignore[arg-type]


@pytest.mark.parametrize("name", registry.names())
def test_settings_round_trip_through_json(name: str) -> None:
    settings = make_settings(name, "Pendulum-v1", reuse="3:40,2", seed=5)
    assert from_json(json.loads(json.dumps(settings.to_json()))) == settings
    assert names(name).keys() == {field.name for field in dataclasses.fields(settings)} - {"hyper"} | {
        field.name for field in dataclasses.fields(settings.hyper)
    }


def test_contradictory_settings_are_refused() -> None:
    for values, message in (
        ({"steps": 100, "warmup": 100}, "nothing would be learned"),
        ({"bias_every": 1500}, "multiple of the 1000"),
    ):
        with pytest.raises(SmrlError, match=message):
            make_settings("sac", "Pendulum-v1", **values)
