"""The code of docs/extend.md: a custom algorithm, preset, rule, environment and callbacks."""

import csv
import importlib
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import smrl
from smrl import presets
from smrl.algorithms import registry
from smrl.cli.main import main
from smrl.errors import SmrlError
from smrl.runs import checkpoint

PAGE = Path(__file__).parents[1] / "docs" / "extend.md"
DATACLASS = "from dataclasses import dataclass\n@dataclass\nclass C:\n"
SHORT = [
    "--steps",
    "60",
    "--warmup",
    "20",
    "--eval-every",
    "20",
    "--eval-episodes",
    "1",
    "--batch-size",
    "8",
    "--quiet",
]


@pytest.fixture
def my_module(in_tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """The page's code as a module of the working directory."""
    blocks = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    kept = [block for block in blocks if not block.startswith("smrl.register")]
    assert len(kept) == len(blocks) - 1
    (in_tmp_path / "my_module.py").write_text("\n\n".join(kept))
    monkeypatch.syspath_prepend(in_tmp_path)
    yield importlib.import_module("my_module")
    del sys.modules["my_module"]
    for table in (registry._entries, presets.PRESETS):
        for name in [name for name in table if name.startswith("my_module:") or name in ("cem", "quick")]:
            del table[name]


def only_run(folder: Path) -> smrl.Run:
    (config,) = folder.glob("runs/*/*/seed0/config.json")
    return smrl.load(config.parent, trust=True)


def test_an_algorithm_on_the_command_line(my_module: Any, in_tmp_path: Path) -> None:
    main(["train", "my_module:cem", "Pendulum-v1", *SHORT, "--reuse", "3", "--samples", "8"])
    run = only_run(in_tmp_path)
    assert run.settings.algorithm == "my_module:cem"
    assert run.settings.hyper == my_module.CEM(samples=8)
    assert run.path.parent.name.startswith("my_module.cem-reuse3-")
    assert -2 <= run.policy(np.zeros(3))[0] <= 2
    main(["train", "my_module:cem", "Pendulum-v1", *SHORT, "--reuse", "3", "--samples", "8"])
    assert only_run(in_tmp_path).record.steps.tolist() == [20, 40, 60], "it is found again"


def test_a_diagnostic_that_an_algorithm_does_not_offer_is_refused(
    my_module: Any, in_tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit, match="2"):
        main(["train", "my_module:cem", "Pendulum-v1", *SHORT, "--bias-every", "60"])
    assert "my_module:cem offers no q_values and policy_sample" in capsys.readouterr().err
    assert not (in_tmp_path / "runs").exists()


def test_an_algorithm_by_a_registered_name(my_module: Any, tmp_path: Path) -> None:
    smrl.register("cem", my_module.cem)
    assert registry.find("cem").title == "Q-learning whose policy maximises Q by the cross-entropy method."
    settings: dict[str, Any] = {"steps": 60, "warmup": 20, "eval_every": 60, "eval_episodes": 1, "batch_size": 8}
    run = smrl.train("cem", "Pendulum-v1", reuse=2, runs=tmp_path, quiet=True, **settings)
    assert run.record.steps.tolist() == [60]


def test_a_rule_and_a_preset(my_module: Any, in_tmp_path: Path) -> None:
    words = ["--preset", "my_module:quick", "--reuse", "my_module:careful", "--samples", "4"]
    main(["train", "my_module:cem", "Pendulum-v1", *words, *SHORT])
    run = only_run(in_tmp_path)
    assert run.settings.reuse == "my_module:careful"
    assert presets.resolve("sac", "Hopper-v4", "my_module:quick").steps == 20_000
    saved = checkpoint.load(run.path / "checkpoint", print)
    assert saved is not None
    assert 1 <= saved.arrays["['rule']['times']"] <= 10
    assert np.isfinite(saved.arrays["['rule']['smallest']"]), "the carry is part of the checkpoint"
    with (run.path / "training.csv").open() as file:
        updates = [int(row["updates"]) for row in csv.DictReader(file)]
    assert updates[-1] == saved.arrays["['updates']"] <= 10 * 40
    main(["train", "my_module:cem", "Pendulum-v1", *words, *SHORT, "--steps", "80"])
    assert only_run(in_tmp_path).record.steps.tolist() == [20, 40, 60, 80], "and is continued"


def test_an_environment_and_a_callback(my_module: Any, in_tmp_path: Path) -> None:
    main(["train", "ddpg", "my_module:make_env", *SHORT, "--actor-hidden", "8", "--critic-hidden", "8"])
    assert only_run(in_tmp_path).settings.env == "my_module:make_env"
    stopped = my_module.watch(
        str(in_tmp_path / "watched"), steps=60, warmup=20, eval_every=20, eval_episodes=1, quiet=True
    )
    assert stopped.record.steps[-1] == 60 or stopped.record.returns[-1] > -200


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("def broken(config, spec): ...", "must be annotated with a dataclass"),
        ("broken = 3", "must be a function"),
        (
            DATACLASS + "    x: int\ndef broken(config: C, spec): ...",
            "x of .* needs a default",
        ),
        (
            DATACLASS + "    gamma: int = 1\ndef broken(config: C, spec): ...",
            "gamma of .* has the name of a setting",
        ),
    ],
)
def test_invalid_algorithms_are_refused(source: str, message: str, in_tmp_path: Path) -> None:
    name = f"broken{abs(hash(source))}"
    (in_tmp_path / f"{name}.py").write_text(source)
    sys.path.insert(0, str(in_tmp_path))
    try:
        with pytest.raises(SmrlError, match=message):
            presets.resolve(f"{name}:broken", "Pendulum-v1")
    finally:
        sys.path.remove(str(in_tmp_path))


def test_built_in_names_cannot_be_registered(my_module: Any) -> None:
    for name, what in (("sac", my_module.cem), ("paper", my_module.quick), ("two words", my_module.cem)):
        with pytest.raises(SmrlError, match=r"another name|must be a word"):
            smrl.register(name, what)
