"""Sweeps from files and presets: which runs they describe, and where errors are reported."""

import os
from pathlib import Path
from typing import Any

import pytest

from smrl.api import register
from smrl.errors import SmrlError
from smrl.paper import tasks
from smrl.presets import Preset, Row
from smrl.studies.sweep import Sweep, read_sweep, sweep

FILE = """
title = "SAC and TD3 on two tasks"
steps = 100_000
[[runs]]
algorithm = ["sac", "td3"]
env = ["Hopper-v4", "dmc/cheetah-run"]
reuse = [1, 10]
seeds = 3
"""


LISTS = {name: found.tasks for name, found in tasks.LISTS.items()}


def read(folder: Path, text: str) -> Sweep:
    file = folder / "sweep.toml"
    file.write_text(text)
    return read_sweep(str(file), LISTS)


def seen(found: Sweep, *names: str) -> list[tuple[Any, ...]]:
    """Return the values of these settings, run by run; None where the algorithm lacks the setting."""
    return [tuple(getattr(one, name, getattr(one.hyper, name, None)) for name in names) for one in found.settings]


def test_combinations_of_a_table(tmp_path: Path) -> None:
    found = read(tmp_path, FILE)
    assert found.title == "SAC and TD3 on two tasks"
    envs = ("Hopper-v4", "dmc/cheetah-run")
    assert found.settings == [
        one for env in envs for one in sweep(["sac", "td3"], env, reuse=[1, 10], seeds=3, steps=100_000)
    ]
    assert len(found.settings) == 2 * 2 * 2 * 3


def test_several_tables_without_duplicate_runs(tmp_path: Path) -> None:
    more = '[[runs]]\nalgorithm = "td3"\nenv = "Hopper-v4"\nreuse = 1\nseeds = [2, 7]\ndelay = [2, 3]\n'
    found = read(tmp_path, FILE + more)
    assert len(found.settings) == 24 + 4 - 1
    assert seen(found, "algorithm", "seed", "delay")[-3:] == [("td3", 7, 2), ("td3", 2, 3), ("td3", 7, 3)]
    assert {one.steps for one in found.settings} == {100_000}


def test_a_table_overrides_settings_above_it(tmp_path: Path) -> None:
    text = 'seeds = 1\nreuse = 1\nalgorithm = "sac"\n[[runs]]\nenv = "Hopper-v4"\n[[runs]]\nenv = "Ant-v4"\nreuse = 5\n'
    assert seen(read(tmp_path, text), "env", "reuse") == [("Hopper-v4", "1"), ("Ant-v4", "5")]


def test_a_single_table_needs_no_heading(tmp_path: Path) -> None:
    assert seen(read(tmp_path, 'algorithm = "sac"\nenv = "Hopper-v4"\nseeds = 1\n'), "reuse") == [("1",), ("10",)]


def test_task_lists_and_presets(tmp_path: Path) -> None:
    text = 'algorithm = "sac"\nenv = "@dmc-utd"\npreset = ["paper", "utd"]\nreuse = 1\nseeds = 1\n'
    found = read(tmp_path, text)
    assert seen(found, "env", "fresh_batches") == [
        (env, fresh) for env in tasks.find("dmc-utd").tasks for fresh in (1, 10)
    ]


def test_values_in_a_file(tmp_path: Path) -> None:
    text = """
algorithm = ["sac", "td3"]
env = "Hopper-v4"
seeds = 1
steps = 1e5                            # a whole number
reuse = "10:300000,1"                  # a schedule
actor_hidden = [64, 32]                # one network
critic_hidden = [[64, 64], [8]]        # two
target_entropy = ["none", -1]          # of SAC alone
layer_norm = true
"""
    found = read(tmp_path, text)
    assert {one.steps for one in found.settings} == {100_000}
    assert set(seen(found, "reuse", "layer_norm", "actor_hidden")) == {("10:300000,1", True, (64, 32))}
    assert seen(found, "algorithm", "critic_hidden", "target_entropy") == [
        ("sac", (64, 64), None),
        ("sac", (64, 64), -1),
        ("sac", (8,), None),
        ("sac", (8,), -1),
        ("td3", (64, 64), None),
        ("td3", (8,), None),
    ]


def test_none_is_a_text_where_a_setting_has_this_choice(tmp_path: Path) -> None:
    text = 'algorithm = "drqv2"\nenv = "dmc-pixels/walker-walk"\nseeds = 1\nreuse = 1\naugmentation = "none"\n'
    pytest.importorskip("smrl.algorithms.drqv2")
    assert seen(read(tmp_path, text), "augmentation") == [("none",)]


def test_modules_of_the_working_directory_are_found(in_tmp_path: Path) -> None:
    (in_tmp_path / "my_presets.py").write_text(
        'from smrl import Preset, Row\nmine = Preset("", (Row("sac", {"tau": 0.5}),))'
    )
    found = read(in_tmp_path, 'algorithm = "sac"\nenv = "X-v0"\nreuse = 1\nseeds = 1\npreset = "my_presets:mine"\n')
    assert seen(found, "tau") == [(0.5,)]


def test_slurm_options(tmp_path: Path) -> None:
    assert read(tmp_path, f'{FILE}\n[slurm]\npartition = "cpu"\n').slurm == {"partition": "cpu"}


TABLE = '[[runs]]\nalgorithm = "sac"\nenv = "Hopper-v4"\n'


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[[runs]]\nalgorithm = sac\n", "sweep.toml cannot be read as TOML: Invalid value (at line 2, column 13)"),
        (f"{TABLE}{TABLE}tua = 1\n", "[[runs]] number 2 of "),
        (f"{TABLE}tua = 1\n", "no algorithm of sac has a setting 'tua'; did you mean tau?"),
        (f"{TABLE}sedes = 1\n", "did you mean seeds?"),
        (f"{TABLE}seed = 1\n", "did you mean seeds?"),
        (f"{TABLE}hyper = 1\n", "has a setting 'hyper'"),
        (f"titel = 'x'\n{TABLE}", "has a setting 'titel'; did you mean title?"),
        (f"{TABLE}title = 'x'\n", "title belongs above all tables"),
        ("[[runs]]\nalgorithm = 'sac'\n", 'env is missing; add env = "Hopper-v4"'),
        ("[[runs]]\nenv = 'Hopper-v4'\n", 'algorithm is missing; add algorithm = "sac"'),
        ("", "algorithm is missing"),
        ("[runs]\nalgorithm = 'sac'\n", "begin each table of runs with [[runs]]"),
        ("runs = []\n", "begin each table of runs with [[runs]]"),
        ("[[runs]]\nalgorithm = 'sca'\nenv = 'X'\n", "did you mean sac?"),
        ("[[runs]]\nalgorithm = 3\nenv = 'X'\n", "algorithm must be a text or a list of texts, not 3"),
        ("[[runs]]\nalgorithm = []\nenv = 'X'\n", "algorithm must be a text or a list of texts, not []"),
        ("[[runs]]\nalgorithm = 'sac'\nenv = []\n", "env must be a text or a list of texts, not []"),
        ("[[runs]]\nalgorithm = 'sac'\nenv = '@dmc-utb'\n", "did you mean dmc-utd?"),
        (f"{TABLE}preset = 'autors'\n", "did you mean authors?"),
        (f"{TABLE}seeds = 'many'\n", "seeds must be"),
        (f"{TABLE}seeds = 0\n", "seeds must be a whole number of at least 1, not 0"),
        (f"{TABLE}tau = 2\n", "tau must be a number in"),
        (f"{TABLE}steps = 1.5\n", "steps must be a whole number of at least 1, not 1.5"),
        (f"{TABLE}steps = [10_000, 20_000]\n", "give one number of steps"),
        (f"{TABLE}steps = 10_000\n{TABLE}steps = 20_000\n", "give one number of steps"),
        (f"title = 3\n{TABLE}", "title must be a text, not 3"),
        (
            f"{TABLE}seeds = 1_000_000_000\n",
            "at least 1 (at most 1,000), not 1000000000",
        ),
        (
            f"{TABLE}seeds = 1000\ntau = {[k / 100 for k in range(1, 90)]}\n",
            "89,000 runs are more than a sweep",
        ),
        (f"{TABLE}steps = {'1' * 5000}\n", "cannot be read as TOML: Exceeds the limit (4300 digits)"),
        (f"{TABLE}steps = 1e5000\n", "steps must be a whole number of at least 1, not inf"),
        (f"{TABLE}steps = {'[' * 5000}{']' * 5000}\n", "cannot be read as TOML: maximum recursion depth exceeded"),
        (f"{TABLE}steps = {'[' * 200}{']' * 200}\n", "steps must be a whole number of at least 1"),
        (f"{TABLE}reuse = 3_000_000_000\n", "reuse must be at most 1,000,000, not 3000000000"),
        ('[[runs]]\nalgorithm = "sac"\nenv = "a\\u0007"\n', "env must be a text without control characters"),
        (f"slurm = 3\n{TABLE}", "begin the options of sbatch with [slurm]"),
    ],
)
def test_refused(text: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(SmrlError) as error:
        read(tmp_path, text)
    assert message in str(error.value)
    assert "sweep.toml" in str(error.value)


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(SmrlError, match=r"none\.toml cannot be read \(No such file"):
        read_sweep(str(tmp_path / "none.toml"), LISTS)
    (tmp_path / "latin.toml").write_bytes(b"title = '\xe4'")
    with pytest.raises(SmrlError, match="UTF-8"):
        read_sweep(str(tmp_path / "latin.toml"), LISTS)
    os.mkfifo(tmp_path / "fifo.toml")
    with pytest.raises(SmrlError, match="it is not a regular file"):
        read_sweep(str(tmp_path / "fifo.toml"), LISTS)
    for name in ("x" * 300, "a\0b"):
        with pytest.raises(SmrlError, match="the name of a sweep must be a path"):
            read_sweep(name, LISTS)
    with pytest.raises(SmrlError, match=r"neither a file pper nor a preset .*; did you mean paper"):
        read_sweep("pper", LISTS)


def test_sweep_of_a_preset() -> None:
    gym = tasks.find("gym").tasks
    lr = read_sweep("lr", LISTS)
    assert seen(lr, "algorithm", "env", "seed", "learning_rate_factor") == [
        ("sac", env, seed, 10.0) for env in gym for seed in range(6)
    ]
    ant = read_sweep("ant-v2", LISTS)
    assert {one.env for one in ant.settings} == {"Ant-v4"}, "its rows are for Ant alone"
    assert {one.algorithm for one in ant.settings} >= {"ddpg", "td3", "sac", "darc", "tqc", "redq"}
    assert "dqn" not in {one.algorithm for one in ant.settings}
    paper = read_sweep("paper", LISTS)
    assert {one.env for one in paper.settings if one.algorithm == "dqn"} == set(tasks.find("atari").tasks)
    assert {one.env for one in paper.settings if one.algorithm == "td3"} == set(gym)


def test_refuse_a_preset_that_matches_no_task() -> None:
    register("for-sweep-test", Preset("", (Row("sac", {"tau": 0.1}, "No-such-task"),)))
    with pytest.raises(SmrlError, match="match no task of @gym"):
        read_sweep("for-sweep-test", LISTS)
