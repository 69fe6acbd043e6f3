"""The examples: programs, a sweep and a notebook."""

import dataclasses
import importlib
import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from documents import ROOT
from gymnasium.utils.env_checker import check_env
from untrained_runs import SMALL, write_untrained
from written_runs import write_run

import smrl
from examples import algorithm, early_stop, environment, reuse
from smrl.algorithms import registry
from smrl.cli.main import main
from smrl.studies.sweep import read_sweep

FOLDER = ROOT / "examples"
NOTEBOOK = FOLDER / "reuse_in_five_minutes.ipynb"
PROGRAMS = sorted(path.stem for path in FOLDER.glob("*.py") if path.stem != "__init__")


@pytest.mark.parametrize("name", PROGRAMS)
def test_docstrings_say_how_long_it_takes(name: str) -> None:
    if name == "results":
        pytest.importorskip("pandas")
    text = importlib.import_module(f"examples.{name}").__doc__ or ""
    assert re.search(r"Takes .*(second|minute)", text), text
    assert f"python examples/{name}.py" in text


def test_every_example_is_on_the_page() -> None:
    page = (ROOT / "docs" / "examples.md").read_text()
    for name in [*(f"{name}.py" for name in PROGRAMS), "sweep.toml"]:
        assert f'--8<-- "examples/{name}"' in page
    assert NOTEBOOK.name in page


@pytest.mark.slow
def test_reuse_learns_faster() -> None:
    results = reuse.main()
    assert results[10] > 1.3 * results[1], "seeds 0 to 2 gave 2.4, 2.0 and 2.6 times"


def test_the_environment_is_sound() -> None:
    env = environment.Reach(render_mode="rgb_array")
    check_env(env, skip_render_check=True)
    env.reset(seed=0)
    env.position, env.target = np.array([1.0, 1.0]), np.array([-1.0, -1.0])
    image = env.render()
    assert image[-5, -5].tolist() == [255, 255, 255]
    assert image[3, 3].tolist() == [220, 60, 60]


def test_the_environment_can_be_played(in_tmp_path: Path) -> None:
    """As its docstring does it on the command line."""
    name = "examples.environment:Reach"
    write_untrained(in_tmp_path / "run", "sac", name, **SMALL)
    main(["play", "run", "--trust", "--video", "reach.mp4"])
    assert (in_tmp_path / "reach.mp4").stat().st_size > 1_000


@pytest.mark.slow
def test_the_environment_is_learned(in_tmp_path: Path) -> None:
    returns = environment.main().record.returns
    assert returns[-1] > returns[0] / 2, "the mean distance has at least halved"
    assert (in_tmp_path / "reach.mp4").exists()


@pytest.mark.slow
@pytest.mark.usefixtures("in_tmp_path")
def test_the_algorithm_is_learned() -> None:
    try:
        assert algorithm.main().record.returns.max() > 100
    finally:
        registry._entries.pop("double_dqn", None)


def test_the_algorithm_refuses_continuous_actions(in_tmp_path: Path) -> None:
    with pytest.raises(smrl.SmrlError, match="needs discrete actions"):
        smrl.train("examples.algorithm:double_dqn", "Pendulum-v1", quiet=True)


@pytest.mark.slow
def test_callbacks_log_and_stop(in_tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Evaluations that do not improve end the run, and what was logged is a column."""
    values = iter([-100.0, -300.0, -200.0, -250.0])

    class Worse(early_stop.Patience):
        def __call__(self, status: smrl.Status) -> bool:
            evaluation = {**status.evaluation, "mean": next(values)}
            return super().__call__(dataclasses.replace(status, evaluation=evaluation))

    small: Any = {"steps": 200, "warmup": 20, "eval_every": 20, "eval_episodes": 1, "batch_size": 8, "reuse": 1}
    small |= {"actor_hidden": (8,), "critic_hidden": (8,), "max_episode_steps": 10, "quiet": True}
    callbacks: Any = {"on_step": early_stop.report_episodes, "on_evaluation": Worse(2)}
    run = smrl.train("sac", "Pendulum-v1", runs=in_tmp_path, **small, **callbacks)
    assert list(run.evaluations["step"]) == [20, 40, 60], "two evaluations after the best one"
    assert all(0 <= value <= 2 for value in run.training["torque_when_hanging"])
    assert "step 10: an episode of 10 steps with a return of -" in capsys.readouterr().out


def test_the_sweep_is_a_grid() -> None:
    settings = read_sweep(str(FOLDER / "sweep.toml"), {}).settings
    assert len(settings) == (3 + 2) * 3
    assert {(each.reuse, each.batch_size) for each in settings} == {
        *(("1", 256), ("2", 256), ("10", 256), ("10", 64), ("10", 1024)),
    }


def test_results_are_read_with_pandas(in_tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("pandas")
    results: Any = importlib.import_module("examples.results")
    for reuse_times, seed, shift in (("1", 0, 0), ("1", 1, 20), ("10", 0, 1000), ("10", 1, 1100)):
        points = [(1000, -1300.0 + shift), (2000, -1200.0 + shift)]
        write_run(
            in_tmp_path / "runs" / f"sac{reuse_times}" / f"seed{seed}", points, reuse=reuse_times, seed=seed, warmup=100
        )
    curves = results.main()
    assert curves.loc[("Hopper-v4", "sac", "10", 2000), "mean"] == pytest.approx(-150)
    assert curves.loc[("Hopper-v4", "sac", "1", 1000), "std"] == pytest.approx(np.std([0, 20], ddof=1))
    table = results.steps_to(results.evaluations(in_tmp_path / "runs"), -200)
    assert table.to_numpy().tolist() == [[2000, 1000]]
    assert "steps to a return of -200" in capsys.readouterr().out


def stored() -> list[Any]:
    """Return the code cells of the notebook."""
    return [cell for cell in json.loads(NOTEBOOK.read_text())["cells"] if cell["cell_type"] == "code"]


def test_the_notebook_has_outputs_that_can_be_read() -> None:
    cells = stored()
    assert [cell["execution_count"] for cell in cells] == list(range(1, len(cells) + 1))
    assert any("image/png" in output.get("data", {}) for cell in cells for output in cell["outputs"])
    shown = [output.get("text") or output["data"]["text/plain"] for cell in cells for output in cell["outputs"]]
    text = "".join("".join(lines) for lines in shown)
    assert "step 2,000 of 2,000" in text, "progress is shown"
    assert not re.search(r"\x1b|\r|/home/|/tmp/", text), "no codes of a terminal, no paths of a machine"
    assert text.count("\n") < 60


@pytest.mark.slow
def test_the_notebook_runs(in_tmp_path: Path) -> None:
    pytest.importorskip("ipykernel", reason="ipykernel is not installed: smrl[notebook] has it")
    nbclient = pytest.importorskip("nbclient", reason="nbclient is not installed: smrl[notebook] has it")
    nbformat = pytest.importorskip("nbformat")
    notebook = nbformat.read(NOTEBOOK, 4)
    resources = {"metadata": {"path": str(in_tmp_path)}}
    nbclient.NotebookClient(notebook, timeout=1_200, kernel_name="python3", resources=resources).execute()
    kinds = [[output["output_type"] for output in cell["outputs"]] for cell in stored()]
    cells = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert [{output.output_type for output in cell.outputs} for cell in cells] == [set(each) for each in kinds]
