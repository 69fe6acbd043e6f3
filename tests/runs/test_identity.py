import json
import re
import shutil
from collections.abc import Sequence
from itertools import permutations
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from smrl.runs import identity
from smrl.runs.identity import canonical, digest, find, flat, label, slug, varying, words

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


def store(folder: Path, stored: dict[str, Any], number: int = 3) -> Path:
    """Write the config.json of a run, in either format."""
    common = {"threads": 1, "versions": {}}
    new = {"format": 3, "settings": stored, "spec": {"obs": {}, "action": {}}}
    old = {"experiment": stored, "spec": {"obs_size": 1, "action_size": 1}, "action_bounds": [[-1], [1]]}
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(common | (old if number == 1 else new)))
    return folder


def test_flat_settings_have_the_hyperparameters_among_them() -> None:
    found = flat(settings(tau=0.01))
    assert "hyper" not in found
    assert (found["algorithm"], found["tau"], found["actor_hidden"]) == ("sac", 0.01, [256, 256])
    assert flat(found) == found
    assert isinstance(found["learning_rate_factor"], float)  # a number stays of its type


def test_identity_is_all_but_seed_and_steps() -> None:
    assert canonical(settings(seed=1, steps=5)) == canonical(settings())
    assert identity.identity(settings()).keys() == flat(settings()).keys() - {"seed", "steps"}
    for changes in ({"tau": 0.01}, {"reuse": "1"}, {"env": "Ant-v4"}, {"algorithm": "td3"}, {"reset_every": 0}):
        assert canonical(settings(**changes)) != canonical(settings()), changes


def test_identity_knows_numbers_and_not_how_they_are_written() -> None:
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
def test_folders_have_readable_names(changes: dict[str, Any], name: str) -> None:
    assert slug(settings(**changes), DEFAULTS) == name


def test_a_long_name_is_cut_and_ends_in_the_digest() -> None:
    first, second = settings(actor_hidden=[64] * 50), settings(actor_hidden=[64] * 51)
    assert len(slug(first, DEFAULTS)) == 120
    assert slug(first, DEFAULTS).endswith(f"x64x6-{digest(first)}")
    assert slug(first, DEFAULTS) != slug(second, DEFAULTS)


def test_a_new_run_is_called_by_its_settings(tmp_path: Path) -> None:
    assert find(settings(seed=3), DEFAULTS, tmp_path) == tmp_path / "Hopper-v4" / "sac-reuse10" / "seed3"
    assert find(settings("dmc/cheetah-run"), DEFAULTS, tmp_path).parts[-3] == "dmc-cheetah-run"
    assert find(settings("my_module:Env-v0"), DEFAULTS, tmp_path).parts[-3] == "my_module-Env-v0"
    for env in ("..", "../..", "", "/", "x" * 500):
        inside = find(settings(env), DEFAULTS, tmp_path).relative_to(tmp_path)
        assert ".." not in inside.parts
        assert len(inside.parts) == 3
        assert all(len(part) < 200 for part in inside.parts)


@pytest.mark.parametrize("number", [1, 3])
def test_a_run_is_found_again_whatever_its_folder_is_called(tmp_path: Path, number: int) -> None:
    mine = settings(algorithm="mine", reuse="5", fresh_batches=20, seed=1)
    old = store(tmp_path / "Hopper-v4" / "mine-fresh20-reuse5" / "seed1", mine, number)
    assert find(mine | {"steps": 9}, DEFAULTS, tmp_path) == old
    assert find(mine, DEFAULTS | {"fresh_batches": 20}, tmp_path) == old  # the defaults have been edited
    assert find(mine | {"seed": 2}, DEFAULTS, tmp_path) == old.parent / "seed2"
    assert find(settings(algorithm="mine", seed=1), DEFAULTS, tmp_path).parent.name == "mine-reuse10"


def test_settings_that_were_not_stored_are_the_defaults(tmp_path: Path) -> None:
    stored = settings()
    del stored["n_step"], stored["hyper"]["tau"]
    old = store(tmp_path / "Hopper-v4" / "old" / "seed0", stored)
    assert find(settings(), DEFAULTS, tmp_path) == old
    assert find(settings(n_step=3), DEFAULTS, tmp_path).parent.name == "sac-reuse10-nstep3"


def test_a_taken_name_gets_the_digest(tmp_path: Path) -> None:
    taken, mine = settings(tau=0.01, seed=7), settings()
    store(tmp_path / "Hopper-v4" / "sac-reuse10" / "seed7", taken)
    name = f"sac-reuse10-{digest(mine)}"
    assert find(mine, DEFAULTS, tmp_path) == tmp_path / "Hopper-v4" / name / "seed0"
    store(tmp_path / "Hopper-v4" / name / "seed9", taken)
    assert find(mine, DEFAULTS, tmp_path).parent.name == f"{name}-2"


@pytest.mark.parametrize("text", ["{", '{"format": 99}', "{}"])
def test_what_cannot_be_read_is_skipped_and_left_alone(tmp_path: Path, text: str) -> None:
    folder = store(tmp_path / "Hopper-v4" / "sac-reuse10" / "seed0", settings())
    (folder / "config.json").write_text(text)
    assert find(settings(), DEFAULTS, tmp_path).parent.name == f"sac-reuse10-{digest(settings())}"
    store(folder.parent / "seed1", settings(seed=1))  # the label of another seed is no place for it either
    assert find(settings(), DEFAULTS, tmp_path).parent.name == f"sac-reuse10-{digest(settings())}"
    assert find(settings(seed=1), DEFAULTS, tmp_path) == folder.parent / "seed1"


def test_a_run_has_its_seed_in_its_settings_and_in_its_folder(tmp_path: Path) -> None:
    folder = store(tmp_path / "Hopper-v4" / "sac-reuse10" / "seed0", settings(seed=4))
    assert find(settings(), DEFAULTS, tmp_path).parent.name == f"sac-reuse10-{digest(settings())}"
    shutil.move(folder, folder.with_name("seed0-moved-away"))
    assert find(settings(), DEFAULTS, tmp_path) == folder
    assert find(settings(seed=4), DEFAULTS, tmp_path) == folder.with_name(
        "seed4"
    )  # who moves a run away wants a new one


# Few values, so that settings are often equal and names often clash.
SOME = st.fixed_dictionaries(
    {
        "env": st.sampled_from(["a/b", "a-b", "c"]),
        "algorithm": st.sampled_from(["cem", "my:cem", "my.cem", "cem-reuse1"]),  # an upgrade adds nothing to theirs
        "reuse": st.sampled_from(["1", "10", "10:300,1", "10until300then1"]),
        "tau": st.sampled_from([0.005, 1, 1.0, True, "1", None, "none"]),
        "actor_hidden": st.sampled_from([(1, 1), (1.0, 1), (11,), "1x1"]),
        "seed": st.integers(0, 2),
        "steps": st.integers(1, 2),
    }
)
EDITED = st.sampled_from([{}, {"tau": 1}, {"actor_hidden": (11,), "reuse": "1"}])
FATES = st.sampled_from([1, 3, 3, 3, "damaged"])


@pytest.mark.parametrize("clashing", [False, True])
@given(plan=st.lists(st.tuples(SOME, EDITED, FATES), max_size=8))
@hypothesis_settings(deadline=None, max_examples=50)
def test_every_identity_has_a_folder_of_its_own(
    clashing: bool, plan: Sequence[tuple[dict[str, Any], dict[str, Any], Any]]
) -> None:
    known: dict[tuple[str, int], Path] = {}
    owner: dict[Path, str] = {}  # label → identity
    lost: set[Path] = set()
    with TemporaryDirectory() as temporary, pytest.MonkeyPatch.context() as patch:
        if clashing:  # the worst case: all slugs and digests are the same
            patch.setattr(identity, "slug", lambda *_: "same")
            patch.setattr(identity, "digest", lambda *_: "00000000")
        runs = Path(temporary)
        for changes, edited, fate in plan:
            mine = settings(**{"algorithm": "cem"} | changes)
            key = canonical(mine), mine["seed"]
            folder = find(mine, DEFAULTS | edited, runs)
            assert folder not in lost
            assert folder == known.setdefault(key, folder)
            assert owner.setdefault(folder.parent, key[0]) == key[0]
            store(folder, mine, 1 if fate == 1 else 3)
            if fate == "damaged":
                (folder / "config.json").write_text("{")
                lost.add(known.pop(key))
        assert len(set(known.values())) == len(known)
        for changes, edited, _ in reversed(plan):
            mine = settings(**{"algorithm": "cem"} | changes)
            if (canonical(mine), mine["seed"]) in known:
                assert find(mine, DEFAULTS | edited, runs) == known[canonical(mine), mine["seed"]]


def test_the_order_of_creation_does_not_matter(tmp_path: Path) -> None:
    several = [settings(algorithm=name, seed=seed) for name in ("my:cem", "my.cem") for seed in (0, 1)]
    for number, order in enumerate(permutations(several)):
        runs = tmp_path / str(number)
        places = {str(mine): store(find(mine, DEFAULTS, runs), mine) for mine in order}
        assert len(set(places.values())) == 4
        assert all(find(mine, DEFAULTS, runs) == places[str(mine)] for mine in several)
        assert len({place.parent for place in places.values()}) == 2  # the seeds of one identity stay together


def test_varying_names_what_differs() -> None:
    assert varying([]) == []
    assert varying([settings(), settings(seed=1, steps=5, learning_rate_factor=1)]) == []
    assert varying([settings(), settings(tau=0.01, batch_size=400), settings(reuse="1")]) == [
        "reuse",
        "batch_size",
        "tau",
    ]


def test_what_the_algorithm_or_the_environment_says_is_not_named() -> None:
    """TQC has its own warm-up and DARC another ν on every robot; that is no reason to put them into all labels."""
    several = [settings(), settings(algorithm="tqc", n_step=5), settings("Ant-v4", tau=0.01)]
    assert varying(several) == ["algorithm", "env"]
    assert varying([*several, settings(algorithm="tqc", n_step=3)]) == ["algorithm", "env", "n_step"]


def test_a_setting_that_some_runs_lack_varies() -> None:
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
        ({"squashed": False}, ["squashed", "reset_every"], "SAC, reuse 10, no squashed, reset every none"),
        ({"algorithm": "my_module:cem", "reuse": "rules:auto"}, [], "my_module:cem, reuse rules:auto"),
        ({"actor_hidden": (64, 64)}, ["actor_hidden", "critics"], "SAC, reuse 10, actor hidden 64×64"),
    ],
)
def test_labels_are_words(changes: dict[str, Any], names: list[str], text: str) -> None:
    assert label(settings(**changes), names) == text


@given(st.floats(allow_nan=False, allow_infinity=False) | st.integers())
def test_values_are_written_without_loss(value: float) -> None:
    text = words(value).replace(",", "").replace("−", "-")
    assert type(value)(text) == value
    if 1e-15 < abs(value) < 1e15:
        assert "e" not in text


def test_a_setting_that_is_younger_than_a_run_counts_as_unused() -> None:
    old = {"algorithm": "sac", "env": "Hopper-v4", "reuse": "10", "seed": 0, "steps": 10, "hyper": {"tau": 0.01}}
    assert canonical(old) == canonical(old | {"max_episode_steps": None})
    assert canonical(old) != canonical(old | {"max_episode_steps": 100})
