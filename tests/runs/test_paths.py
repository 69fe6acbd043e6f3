"""Where runs are found, and that a downloaded run cannot make smrl write or delete outside its folder."""

import json
import os
import shutil
from collections.abc import Sequence
from itertools import permutations
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from test_identity import DEFAULTS, settings
from written_runs import FACTS, make_config

import smrl
from smrl.errors import SmrlError
from smrl.memory.replay import Replay
from smrl.runs import checkpoint, identity, paths
from smrl.runs.checkpoint import Saved
from smrl.runs.doctor import repair
from smrl.runs.identity import canonical, digest
from smrl.runs.paths import CONFIG, RunDirectory, find
from smrl.settings import make_settings
from smrl.types import ArraySpec, Continuous, Spec

SPEC = Spec(ArraySpec((1,)), Continuous(1))
SHORT: dict[str, Any] = {
    **{"steps": 30, "warmup": 10, "eval_every": 10, "eval_episodes": 1, "batch_size": 4, "reuse": 1},
    **{"actor_hidden": (4,), "critic_hidden": (4,), "quiet": True},
}


def store(folder: Path, stored: dict[str, Any]) -> Path:
    """Write the config.json of a run."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / CONFIG).write_text(json.dumps(make_config(stored)))
    return folder


PLATFORM = {
    **{"versions": {"jax": "1", "numpy": "2"}, "switches": {"XLA_FLAGS": "not set"}},
    **{"cpu": "AMD", "backend": "cpu", "machine": "x86_64 Linux", "git_commit": None},
}


def test_written_config_is_read_and_compared(tmp_path: Path) -> None:
    run, chosen = RunDirectory(tmp_path), make_settings("sac", "Hopper-v4", seed=3)
    written = run.write_config(chosen, SPEC, "0123", 2, PLATFORM)
    assert run.read_config() == written
    assert (written["threads"], written["settings"]["seed"], written["cpu"]) == (2, 3, "AMD")
    assert Spec.from_json(written["spec"]) == SPEC
    run.check_same_run(written, chosen, "0123")
    run.check_same_run(written | {"env_source": None}, chosen, "0123")
    with pytest.raises(SmrlError, match="was just taken by a run with other settings"):
        run.check_same_run(written, make_settings("sac", "Hopper-v4", seed=3, tau=0.01), "0123")
    with pytest.raises(SmrlError, match="the function that makes it has changed; give env_name= another name"):
        run.check_same_run(written, chosen, None)


def test_changes_of_the_platform(tmp_path: Path) -> None:
    run = RunDirectory(tmp_path)
    written = run.write_config(make_settings("sac", "Hopper-v4"), SPEC, None, 1, PLATFORM)
    assert run.changes(written, PLATFORM) == []
    now = PLATFORM | {"versions": {"jax": "1.1", "numpy": "2", "new": "1"}, "switches": {"XLA_FLAGS": "x", "new": "y"}}
    assert run.changes(written, now | {"cpu": "Intel", "backend": "gpu", "git_commit": "abc"}) == [
        "jax was 1 and is 1.1 now",
        "the processor was AMD and is Intel now",
        "the backend of JAX was cpu and is gpu now",
        "XLA_FLAGS was not set and is x now",
    ]


def test_folder_of_a_new_run(tmp_path: Path) -> None:
    assert find(settings(seed=3), DEFAULTS, tmp_path) == tmp_path / "Hopper-v4" / "sac-reuse10" / "seed3"
    assert find(settings("dmc/cheetah-run"), DEFAULTS, tmp_path).parts[-3] == "dmc-cheetah-run"
    assert find(settings("my_module:Env-v0"), DEFAULTS, tmp_path).parts[-3] == "my_module-Env-v0"
    for env in ("..", "../..", "", "/", "x" * 500):
        inside = find(settings(env), DEFAULTS, tmp_path).relative_to(tmp_path)
        assert ".." not in inside.parts
        assert len(inside.parts) == 3
        assert all(len(part) < 200 for part in inside.parts)


def test_run_is_found_under_any_label(tmp_path: Path) -> None:
    mine = settings(algorithm="mine", reuse="5", fresh_batches=20, seed=1)
    old = store(tmp_path / "Hopper-v4" / "mine-fresh20-reuse5" / "seed1", mine)
    assert find(mine | {"steps": 9}, DEFAULTS, tmp_path) == old
    assert find(mine, DEFAULTS | {"fresh_batches": 20}, tmp_path) == old  # the defaults have been edited
    assert find(mine | {"seed": 2}, DEFAULTS, tmp_path) == old.parent / "seed2"
    assert find(settings(algorithm="mine", seed=1), DEFAULTS, tmp_path).parent.name == "mine-reuse10"


def test_missing_settings_count_as_the_defaults(tmp_path: Path) -> None:
    stored = settings()
    del stored["n_step"], stored["hyper"]["tau"]
    old = store(tmp_path / "Hopper-v4" / "old" / "seed0", stored)
    assert find(settings(), DEFAULTS, tmp_path) == old
    assert find(settings(n_step=3), DEFAULTS, tmp_path).parent.name == "sac-reuse10-nstep3"


def test_taken_label_gets_the_digest(tmp_path: Path) -> None:
    taken, mine = settings(tau=0.01, seed=7), settings()
    store(tmp_path / "Hopper-v4" / "sac-reuse10" / "seed7", taken)
    name = f"sac-reuse10-{digest(mine)}"
    assert find(mine, DEFAULTS, tmp_path) == tmp_path / "Hopper-v4" / name / "seed0"
    store(tmp_path / "Hopper-v4" / name / "seed9", taken)
    assert find(mine, DEFAULTS, tmp_path).parent.name == f"{name}-2"


@pytest.mark.parametrize("text", ["{", '{"format": 99}', "{}"])
def test_unreadable_run_is_left_alone(tmp_path: Path, text: str) -> None:
    folder = store(tmp_path / "Hopper-v4" / "sac-reuse10" / "seed0", settings())
    (folder / CONFIG).write_text(text)
    assert find(settings(), DEFAULTS, tmp_path).parent.name == f"sac-reuse10-{digest(settings())}"
    store(folder.parent / "seed1", settings(seed=1))  # the label of another seed is no place for it either
    assert find(settings(), DEFAULTS, tmp_path).parent.name == f"sac-reuse10-{digest(settings())}"
    assert find(settings(seed=1), DEFAULTS, tmp_path) == folder.parent / "seed1"


def test_seed_of_folder_and_settings_must_agree(tmp_path: Path) -> None:
    folder = store(tmp_path / "Hopper-v4" / "sac-reuse10" / "seed0", settings(seed=4))
    assert find(settings(), DEFAULTS, tmp_path).parent.name == f"sac-reuse10-{digest(settings())}"
    shutil.move(folder, folder.with_name("seed0-moved-away"))
    assert find(settings(), DEFAULTS, tmp_path) == folder
    assert find(settings(seed=4), DEFAULTS, tmp_path) == folder.with_name(
        "seed4"
    )  # a run that was moved away is trained again


# Few values, so that settings are often equal and names often clash.
SOME = st.fixed_dictionaries(
    {
        "env": st.sampled_from(["a/b", "a-b", "c"]),
        "algorithm": st.sampled_from(["cem", "my:cem", "my.cem", "cem-reuse1"]),
        "reuse": st.sampled_from(["1", "10", "10:300,1", "10until300then1"]),
        "tau": st.sampled_from([0.005, 1, 1.0, True, "1", None, "none"]),
        "actor_hidden": st.sampled_from([(1, 1), (1.0, 1), (11,), "1x1"]),
        "seed": st.integers(0, 2),
        "steps": st.integers(1, 2),
    }
)
EDITED = st.sampled_from([{}, {"tau": 1}, {"actor_hidden": (11,), "reuse": "1"}])
FATES = st.sampled_from(["intact", "intact", "intact", "damaged"])


@pytest.mark.parametrize("clashing", [False, True])
@given(plan=st.lists(st.tuples(SOME, EDITED, FATES), max_size=8))
@hypothesis_settings(deadline=None, max_examples=50)
def test_identities_never_share_a_folder(
    clashing: bool, plan: Sequence[tuple[dict[str, Any], dict[str, Any], str]]
) -> None:
    known: dict[tuple[str, int], Path] = {}
    owner: dict[Path, str] = {}  # label → identity
    lost: set[Path] = set()
    with TemporaryDirectory() as temporary, pytest.MonkeyPatch.context() as patch:
        if clashing:  # the worst case: all slugs and digests are the same
            patch.setattr(identity, "slug", lambda *given: f"same-{given[-1]}")  # but for the attempt
            patch.setattr(identity, "digest", lambda *_: "00000000")
        runs = Path(temporary)
        for changes, edited, fate in plan:
            mine = settings(**{"algorithm": "cem"} | changes)
            key = canonical(mine), mine["seed"]
            folder = find(mine, DEFAULTS | edited, runs)
            assert folder not in lost
            assert folder == known.setdefault(key, folder)
            assert owner.setdefault(folder.parent, key[0]) == key[0]
            store(folder, mine)
            if fate == "damaged":
                (folder / CONFIG).write_text("{")
                lost.add(known.pop(key))
        assert len(set(known.values())) == len(known)
        for changes, edited, _ in reversed(plan):
            mine = settings(**{"algorithm": "cem"} | changes)
            if (canonical(mine), mine["seed"]) in known:
                assert find(mine, DEFAULTS | edited, runs) == known[canonical(mine), mine["seed"]]


def test_order_of_creation_does_not_matter(tmp_path: Path) -> None:
    several = [settings(algorithm=name, seed=seed) for name in ("my:cem", "my.cem") for seed in (0, 1)]
    for number, order in enumerate(permutations(several)):
        runs = tmp_path / str(number)
        places = {str(mine): store(find(mine, DEFAULTS, runs), mine) for mine in order}
        assert len(set(places.values())) == 4
        assert all(find(mine, DEFAULTS, runs) == places[str(mine)] for mine in several)
        assert len({place.parent for place in places.values()}) == 2  # the seeds of one identity stay together


def test_start_reads_its_config_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Once to find the run without a lock, and once more under its lock."""
    read: list[str] = []

    def counted(file: Path) -> bytes:
        read.append(file.name)
        return file.read_bytes()

    monkeypatch.setattr(paths, "read_file", counted)
    smrl.train("ddpg", "Pendulum-v1", **SHORT, runs=tmp_path)
    assert read == []
    smrl.train("ddpg", "Pendulum-v1", **SHORT | {"steps": 40}, runs=tmp_path)
    assert read == [CONFIG, CONFIG]


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    runs = tmp_path_factory.mktemp("trained")
    return smrl.train("ddpg", "Pendulum-v1", **SHORT, runs=runs).path


def content(folder: Path) -> dict[Path, bytes]:
    return {file: file.read_bytes() for file in folder.rglob("*") if file.is_file()}


@pytest.mark.parametrize(
    "name",
    [
        *("checkpoint", "checkpoint/replay", "checkpoint/000000000030", "checkpoint/000000000030/arrays.npz"),
        *("checkpoint/.new", ".lock", ".config.json.new", "config.json", "evaluations.csv", ".evaluations.csv.new"),
        *("training.csv", "tensorboard", "tensorboard/events"),
    ],
)
def test_link_in_a_run_is_refused(trained: Path, tmp_path: Path, name: str) -> None:
    outside, folder = tmp_path / "outside", tmp_path.joinpath("runs", *trained.parts[-3:])
    shutil.copytree(trained, folder)
    link = folder / name
    if link.exists():
        shutil.move(link, outside)
    else:
        outside.mkdir() if name == "checkpoint/.new" else outside.write_text("precious")
    link.symlink_to(outside)
    before = content(tmp_path)
    for attempt in (
        lambda: smrl.train("ddpg", "Pendulum-v1", **SHORT | {"steps": 40}, runs=tmp_path / "runs"),
        lambda: repair(folder),
    ):
        with pytest.raises(SmrlError, match=f"{name} is a link"):
            attempt()
    assert content(tmp_path) == before


def test_run_and_runs_folder_may_be_links(trained: Path, tmp_path: Path) -> None:
    """W&B makes links in its own folder, too."""
    real = tmp_path / "disk" / "a run"
    shutil.copytree(trained, real)
    (real / "wandb").mkdir()
    (real / "wandb" / "latest-run").symlink_to(tmp_path)
    place = tmp_path.joinpath("runs", *trained.parts[-3:])
    place.parent.mkdir(parents=True)
    place.symlink_to(real)
    (tmp_path / "more").symlink_to(tmp_path / "runs")
    run = smrl.train("ddpg", "Pendulum-v1", **SHORT | {"steps": 40}, runs=tmp_path / "more")
    assert run.record.steps.tolist() == [10, 20, 30, 40]
    assert (real / "checkpoint" / "000000000040").is_dir()


@pytest.mark.parametrize(
    "name", ["../../precious.npz", "/etc/passwd", "rows-1-2.npz", "rows-000000000000-000000000009.npz/.."]
)
def test_shard_outside_its_folder_is_refused(tmp_path: Path, name: str) -> None:
    replay = Replay(100, SPEC, gamma=0.9)
    for row in range(10):
        replay.add(np.array([row]), np.zeros(1), 0.0, np.array([row + 1]), False, False)
    checkpoint.save(tmp_path, Saved(10, {}, FACTS), replay)
    place = tmp_path / "000000000010"
    body = checkpoint.read_manifest(place)
    checkpoint.write_manifest(place, body | {"replay": body["replay"] | {name: "0"}})
    assert checkpoint.read_manifest_if_intact(place) is None
    with pytest.raises(SmrlError, match="is damaged"):
        checkpoint.load(tmp_path, pytest.fail)


def test_copied_manifest_is_ignored(tmp_path: Path) -> None:
    checkpoint.save(tmp_path, Saved(10, {}, FACTS), Replay(100, SPEC, gamma=0.9))
    shutil.copytree(tmp_path / "000000000010", tmp_path / "000000000099")
    assert checkpoint.newest_step(tmp_path) == 10


@pytest.mark.parametrize(
    "env", ["..", "../../x", ".", "", "/", "/etc", "a/../../../b", "~", "..\\..\\x", "...", "x\0y"]
)
def test_every_environment_has_a_folder_below_runs(tmp_path: Path, env: str) -> None:
    runs = tmp_path / "a" / "runs"
    foreign = {"algorithm": "../sac", "env": env, "reuse": "../1", "seed": 0, "steps": 1, "hyper": {"tau": "../.."}}
    place = find(foreign, {}, runs)
    assert place.resolve() == place, "without dots"
    assert place.relative_to(runs).parts[-1] == "seed0"
    assert len(place.relative_to(runs).parts) == 3


def test_folder_instead_of_a_file_is_refused(tmp_path: Path) -> None:
    for name in ("config.json", "evaluations.csv", "training.csv", ".lock"):
        (tmp_path / name / name).mkdir(parents=True)
        with (
            pytest.raises(SmrlError, match="is a folder where a file belongs; move it elsewhere"),
            RunDirectory(tmp_path / name).locked(),
        ):
            pass
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "checkpoint").write_text("")
    with pytest.raises(SmrlError, match="is a file, not a folder"), RunDirectory(tmp_path / "run").locked():
        pass


def test_folders_that_are_deleted_meanwhile_are_passed_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A run in progress deletes its old checkpoints."""
    (tmp_path / "a" / "gone").mkdir(parents=True)
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / "config.json").touch()
    scandir = os.scandir

    def scan(path: Any) -> Any:
        if Path(path).name == "gone":
            Path(path).rmdir()
        return scandir(path)

    monkeypatch.setattr(os, "scandir", scan)
    assert paths.find_files(tmp_path, "config.json") == [tmp_path / "b" / "config.json"]
