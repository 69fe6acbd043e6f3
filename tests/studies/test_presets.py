"""What the three presets mean for each algorithm, and the paper's studies."""

from pathlib import Path
from typing import Any

import pytest

from smrl.algorithms import registry
from smrl.errors import SmrlError
from smrl.paper.studies import STUDIES, runs
from smrl.presets import PRESETS, Preset, Row, known_values, resolve
from smrl.runs import identity
from smrl.runs.paths import RunDirectory
from smrl.settings import RunOptions
from smrl.studies.sweep import sweep

NAMES = ("ddpg", "td3", "sac", "darc", "tqc", "redq")


def differences(algorithm: str, env: str, preset: str) -> dict[str, Any]:
    """The settings of a preset that are not those of the paper."""
    paper, other = (identity.flat(resolve(algorithm, env, name).to_json()) for name in ("paper", preset))
    return {name: value for name, value in other.items() if value != paper[name]}


@pytest.mark.parametrize("preset", ["paper", "authors", "original"])
@pytest.mark.parametrize("name", NAMES)
def test_the_three_presets_are_for_all_algorithms(name: str, preset: str) -> None:
    reuse = {"original": "1"}.get(preset, "5" if name == "redq" else "10")
    assert resolve(name, "Hopper-v4", preset).reuse == reuse


AUTHORS: dict[str, dict[str, Any]] = {
    "ddpg": {},
    "td3": {},
    "sac": {"exploration": "mean-plus-noise"},
    "darc": {
        "actor_hidden": [256, 256],
        "critic_hidden": [256, 256],
        "learning_rate": 3e-4,
        "acting": "own-critic",
    },
    "tqc": {},
    "redq": {"exploration": "mean-plus-noise", "initialisation": "small-last", "critic_loss": "mean"},
}
ORIGINAL: dict[str, dict[str, Any]] = {
    "ddpg": {"warmup": 25_000, "eval_every": 5_000},
    "td3": {"warmup": 25_000, "eval_every": 5_000},
    "sac": {"initialisation": "xavier", "adam_epsilon": 1e-7, "warmup": 10_000, "eval_episodes": 1},
    "darc": {"acting": "own-critic", "batch_size": 100, "warmup": 10_000, "eval_every": 5_000},
    "tqc": {},
    "redq": {
        "initialisation": "xavier",
        "log_prob_floor": 1e-6,
        "temperature_loss": "log-alpha",
        "first_temperature": 0.2,
        "order": "together",
        "eval_episodes": 1,
    },
}


@pytest.mark.parametrize("name", NAMES)
def test_authors_and_original_differ_from_the_paper_as_published(name: str) -> None:
    assert differences(name, "Hopper-v4", "authors") == AUTHORS[name]
    assert differences(name, "Hopper-v4", "original") == ORIGINAL[name] | {"reuse": "1"}


def test_the_paper_is_its_pseudo_code() -> None:
    assert resolve("darc", "Hopper-v4").hyper.acting == "best-of-four"
    assert resolve("sac", "Hopper-v4").hyper.exploration == "sample"
    redq = resolve("redq", "Hopper-v4").hyper
    assert (redq.exploration, redq.initialisation, redq.critic_loss) == ("sample", "torch", "sum")
    assert resolve("tqc", "Hopper-v4").hyper.order == "critics-first"


@pytest.mark.parametrize(
    ("env", "paper", "authors"),
    [
        ("Hopper-v4", 0.15, 0.15),
        ("Ant-v4", 0.25, 0.25),
        ("Walker2d-v4", 0.1, 0.1),
        ("HalfCheetah-v4", 0.1, 0.1),
        ("HopperMuJoCoEnv-v0", 0.15, 0.15),
        ("AntMuJoCoEnv-v0", 0.2, 0.25),
        ("Walker2DMuJoCoEnv-v0", 0.15, 0.1),
        ("HalfCheetahMuJoCoEnv-v0", 0.1, 0.1),
    ],
)
def test_nu(env: str, paper: float, authors: float) -> None:
    """The authors' runner looks for the robot's name in that of the environment."""
    assert [resolve("darc", env, preset).hyper.nu for preset in ("paper", "authors")] == [paper, authors]


def test_target_entropies_of_redq() -> None:
    expected = {"Hopper": -1, "HalfCheetah": -3, "Walker2d": -3, "Ant": -4, "Humanoid": -2}
    assert {robot: resolve("redq", f"{robot}-v4").hyper.target_entropy for robot in expected} == expected


def test_rows_that_the_paper_does_not_print_are_marked() -> None:
    marked = [row for row in PRESETS["paper"].rows if row.source == "from code"]
    assert {name for row in marked for name in row.settings} >= {"action_repeat", "nu", "dropped", "target_entropy"}
    printed = [row for row in PRESETS["paper"].rows if not row.source]
    assert not any(
        {"action_repeat", "target_entropy"} & row.settings.keys() for row in printed if "pixels" not in row.tasks
    )
    assert not any("Env-v0" in row.tasks for row in printed if row.settings.keys() != {"steps"})


def test_a_preset_that_names_a_figure_has_the_paper_s_six_seeds() -> None:
    assert {name for name, preset in PRESETS.items() if preset.seeds == 6} == {"lr", "utd"}
    assert {one.seed for one in sweep("sac", "Hopper-v4", preset=["paper", "lr"])} == set(range(6))
    assert {one.seed for one in sweep("sac", "Hopper-v4", preset="lr", seeds=2)} == {0, 1}
    assert {one.seed for one in sweep("sac", "Hopper-v4")} == {0, 1, 2}


def test_the_study_of_utd_is_as_long_as_the_paper_s() -> None:
    assert resolve("sac", "dmc/cheetah-run", "utd").steps == 1_000_000
    assert resolve("sac", "dmc/cheetah-run").steps == 500_000
    assert resolve("sac", "Hopper-v4", "utd").steps == 300_000


@pytest.mark.parametrize("env", ["Hopper-v4", "HalfCheetah-v4"])
def test_smr_plus_is_one_of_the_settings_that_were_compared(env: str) -> None:
    compared = {identity.canonical(one.to_json()) for one in runs(STUDIES["critics"], seeds=1)}
    assert identity.canonical(resolve("sac", env, "smr+").to_json()) in compared


@pytest.mark.parametrize(
    ("algorithm", "preset", "changes", "name"),
    [
        ("sac", "paper", {}, "sac-reuse10"),
        ("sac", "smr+", {}, "sac-reuse4-smr+"),
        ("sac", "smr+", {"reuse": 10, "tau": 0.01}, "sac-reuse10-smr+-tau0.01"),
        ("sac", "utd", {}, "sac-reuse1-fresh10"),
        ("redq", "original", {}, "redq-reuse1-original"),
        ("redq", "droq", {}, "redq-reuse1-droq"),
    ],
)
def test_a_preset_of_many_settings_names_a_run(
    algorithm: str, preset: str, changes: dict[str, Any], name: str, tmp_path: Path
) -> None:
    settings = resolve(algorithm, "Hopper-v4", preset, **changes)
    assert RunDirectory.of(settings, RunOptions(runs=tmp_path)).path == tmp_path / "Hopper-v4" / name / "seed0"


def test_a_preset_of_many_settings_labels_a_curve() -> None:
    mine = resolve("sac", "Hopper-v4", "smr+", tau=0.01).to_json()
    label = identity.label(mine, list(identity.identity(mine)), known_values(mine))
    assert label == "SAC, reuse 4, smr+, tau 0.01"
    assert identity.label(mine, [], known_values(mine)) == "SAC, reuse 4"


def test_the_papers_ant_is_padded() -> None:
    assert all(resolve(name, "Ant-v4", "ant-v2").pad_observations == 84 for name in registry.names() if name in NAMES)
    assert resolve("sac", "Ant-v4").pad_observations is None
    assert resolve("sac", "Ant-v5", "ant-v2").pad_observations is None


def test_the_target_network_of_cartpole_is_copied_often_enough() -> None:
    """A copy looks n_step rewards ahead, so fewer than 500 / n_step copies cannot see the end of an episode."""
    settings = resolve("dqn", "CartPole-v1")
    copies = (settings.steps - settings.warmup) // settings.hyper.target_every
    assert settings.reuse == "10"
    assert copies * settings.n_step >= 500
    assert resolve("dqn", "Acrobot-v1").n_step == 1


def drqv2(task: str) -> tuple[Any, ...]:
    settings = resolve("drqv2", f"dmc-pixels/{task}")
    return settings.n_step, settings.batch_size, settings.hyper.noise_steps, settings.hyper.learning_rate


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        (("finger-turn_easy", "finger-turn-easy", "finger_turn_easy"), (3, 256, 500_000, 1e-4)),
        (("cartpole-swingup_sparse", "cartpole_swingup-sparse"), (3, 256, 500_000, 1e-4)),
        (("walker-walk", "walker_walk"), (1, 512, 100_000, 1e-4)),
        (("cheetah-run", "cheetah_run"), (3, 256, 500_000, 1e-4)),
        (("humanoid-walk", "humanoid_walk"), (3, 256, 2_000_000, 8e-5)),
        (("ball_in_cup-catch", "cup-catch", "cup_catch"), (3, 256, 100_000, 1e-4)),
    ],
)
def test_all_names_of_a_task_have_the_settings_of_drq_v2(names: tuple[str, ...], expected: tuple[Any, ...]) -> None:
    """The noise schedules by difficulty, and the exceptions for walker and humanoid, are those of DrQ-v2's code."""
    assert {name: drqv2(name) for name in names} == dict.fromkeys(names, expected)


def test_all_names_of_a_task_are_one_experiment() -> None:
    names = ("dmc/finger-turn_hard", "dmc/finger_turn-hard", "dm_control/finger-turn_hard-v0")
    assert {identity.digest(resolve("sac", name).to_json()) for name in names} == {
        identity.digest(resolve("sac", names[0]).to_json())
    }
    assert {one.env for name in names for one in sweep("sac", name, seeds=1)} == {names[0]}


def test_a_pattern_may_be_any_name_of_a_task(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(PRESETS, "mine", Preset("", (Row("*", {"gamma": 0.5}, "dm_control/finger-turn-*-v0"),)))
    assert resolve("sac", "dmc/finger-turn_hard", "mine").gamma == 0.5


@pytest.mark.parametrize(
    "row",
    [Row("*", {"nonsense": 1}), Row("sac", {"nonsense": 1}, "Ant-v4"), Row("*", {"env": "x"}), Row("*", {"nu": 0.1})],
)
def test_a_preset_with_an_unknown_setting_is_refused_on_every_task(row: Row, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(PRESETS, "mine", Preset("", (row,)))
    with pytest.raises(SmrlError, match=rf"the preset 'mine' sets '{next(iter(row.settings))}', which sac does not"):
        resolve("sac", "Hopper-v4", "mine")


def test_a_preset_with_a_row_for_an_unknown_algorithm_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(PRESETS, "mine", Preset("", (Row("*", {}), Row("sca", {"tau": 0.01}))))
    with pytest.raises(SmrlError, match="the preset 'mine' has a row for 'sca', which is no algorithm; did you mean"):
        resolve("sac", "Hopper-v4", "mine")
