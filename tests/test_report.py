import json
import re
from collections.abc import Sequence
from io import StringIO
from pathlib import Path

import matplotlib.image
import numpy as np
import pytest
from rich.console import Console

import smrl.report
from smrl.errors import SmrlError
from smrl.report.figures import learning_curves
from smrl.report.records import Record, read_run
from smrl.report.statistics import Reached, curves, final_return, mean_steps_to, steps_to
from smrl.report.table import comparison_table

HEADER = "step,episodes,mean,sd,min,max,length"


def write_run(
    path: Path,
    evaluations: Sequence[tuple[int, float]],
    *,
    env: str = "Pendulum-v1",
    variant: str = "sac",
    reuse: str = "10",
    seed: int = 0,
    steps: int = 3000,
) -> Path:
    path.mkdir(parents=True, exist_ok=True)
    experiment = {"algorithm": variant.partition("-")[0], "env": env, "reuse": reuse, "seed": seed, "steps": steps}
    (path / "config.json").write_text(json.dumps({"experiment": experiment, "variant": variant, "versions": {}}))
    rows = [f"{step},10,{mean},1.0,{mean - 1},{mean + 1},200" for step, mean in evaluations]
    (path / "evaluations.csv").write_text("\n".join([HEADER, *rows, ""]))
    return path


def two_by_two(root: Path) -> list[Record]:
    write_run(root / "a", [(1000, -1200.0), (2000, -180.0), (3000, -150.0)], seed=0)
    write_run(root / "b", [(1000, -190.0), (2000, -220.0), (3000, -250.0)], seed=1)
    write_run(root / "c", [(1000, -1300.0), (2000, -1200.0)], reuse="1", seed=0)
    write_run(root / "d", [(1000, -1100.0), (2000, -1000.0), (3000, -900.0)], reuse="1", seed=1)
    return records_below(root)


def records_below(root: Path) -> list[Record]:
    return [read_run(config.parent) for config in sorted(root.rglob("config.json"))]


def rendered(records: list[Record], threshold: float | None = None, width: int = 80) -> list[list[str]]:
    """The cells of the table as a reader sees them, below its header."""
    output = StringIO()
    Console(file=output, width=width).print(comparison_table(records, threshold))
    body = output.getvalue().split("──")[-1].splitlines()
    return [re.split(r" {2,}", line.strip()) for line in body if line.strip(" ─")]


def test_a_run_is_read(tmp_path: Path) -> None:
    run = write_run(tmp_path, [(1000, -1200.5), (2000, -150.25)], reuse="10:300000,1", seed=3)
    record = read_run(run)
    assert (record.path, record.env, record.variant) == (run, "Pendulum-v1", "sac")
    assert (record.reuse, record.seed, record.budget, record.episodes) == ("10:300000,1", 3, 3000, 10)
    assert record.steps.tolist() == [1000, 2000]
    assert record.returns.tolist() == [-1200.5, -150.25]


@pytest.mark.parametrize("tail", ["3000,10,-1", "3000,10,-100.0,1.0,-101.0,-99.0,200"])
def test_a_line_that_was_cut_off_is_ignored(tmp_path: Path, tail: str) -> None:
    file = write_run(tmp_path, [(1000, -1200.0), (2000, -150.0)]) / "evaluations.csv"
    file.write_text(file.read_text() + tail)
    assert read_run(tmp_path).steps.tolist() == [1000, 2000]


def test_carriage_returns_do_no_harm(tmp_path: Path) -> None:
    file = write_run(tmp_path, [(1000, -1200.0)]) / "evaluations.csv"
    file.write_bytes(file.read_bytes().replace(b"\n", b"\r\n"))
    assert read_run(tmp_path).returns.tolist() == [-1200.0]


@pytest.mark.parametrize(
    ("name", "text", "sentence"),
    [
        ("config.json", None, "there is no config.json in .*; give the directory of a run"),
        ("evaluations.csv", None, "there is no evaluations.csv in .*; give the directory of a run"),
        ("config.json", "{", "is not JSON; train this run again"),
        ("config.json", "[]", "no object named experiment"),
        ("config.json", '{"experiment": {"env": "Pendulum-v1"}}', "it has no 'reuse'"),
        ("config.json", '{"experiment": {"reuse": "ten"}}', "'ten' is not a reuse schedule"),
        ("evaluations.csv", "step,mean\n1000,-5\n", "columns step, episodes and mean"),
        ("evaluations.csv", f"{HEADER}\n1000,10,oops\n", "columns step, episodes and mean"),
        ("evaluations.csv", f"{HEADER}\n1000\n", "columns step, episodes and mean"),
        ("evaluations.csv", f"{HEADER}\n2000,10,1\n1000,10,1\n", "steps do not increase"),
        ("evaluations.csv", f"{HEADER}\n", "no evaluation yet; wait"),
    ],
)
def test_what_cannot_be_read_is_said_in_a_sentence(tmp_path: Path, name: str, text: str | None, sentence: str) -> None:
    file = write_run(tmp_path, [(1000, -1200.0)]) / name
    file.unlink() if text is None else file.write_text(text)
    with pytest.raises(SmrlError, match=sentence):
        read_run(tmp_path)


def test_curves_join_the_steps_that_all_seeds_have(tmp_path: Path) -> None:
    one, ten = curves(two_by_two(tmp_path))
    assert (one.reuse, ten.reuse) == ("1", "10")
    assert one.steps.tolist() == [1000, 2000]
    assert one.mean.tolist() == [-1200.0, -1100.0]
    np.testing.assert_allclose(one.sd, [20000**0.5, 20000**0.5])
    assert ten.mean.tolist() == [-695.0, -200.0, -200.0]


def test_one_seed_has_no_deviation(tmp_path: Path) -> None:
    write_run(tmp_path, [(1000, -5.0), (2000, -4.0)])
    (curve,) = curves(records_below(tmp_path))
    assert curve.sd.tolist() == [0.0, 0.0]


def test_curves_are_ordered_by_the_number_of_reuses(tmp_path: Path) -> None:
    for reuse in ("10", "2", "10:5000,1", "1"):
        write_run(tmp_path / reuse.replace(":", "-"), [(1000, 0.0)], reuse=reuse)
    write_run(tmp_path / "ant", [(1000, 0.0)], env="Ant-v4")
    found = [(curve.env, curve.reuse) for curve in curves(records_below(tmp_path))]
    assert found[0] == ("Ant-v4", "10")
    assert [reuse for _, reuse in found[1:]] == ["1", "2", "10", "10:5000,1"]


def test_steps_to_a_threshold(tmp_path: Path) -> None:
    first, second, third, _ = records = two_by_two(tmp_path)
    assert final_return(first) == -150.0
    assert steps_to(first, -180.0) == 2000  # reaching it exactly counts
    assert steps_to(second, -200.0) == 1000  # and it need not be kept
    assert steps_to(third, -200.0) is None
    assert mean_steps_to(records[:2], -200.0) == Reached(1500.0, 2, 2)
    assert str(mean_steps_to(records[:2], -200.0)) == "1,500 (2 of 2)"
    assert str(mean_steps_to(records[:3], -200.0)) == "1,500 (2 of 3)"
    assert str(mean_steps_to(records[2:], -200.0)) == "never (0 of 2)"


def test_the_table_compares_runs(tmp_path: Path) -> None:
    records = two_by_two(tmp_path)
    one, ten = rendered(records, threshold=-200, width=100)
    assert comparison_table(records, threshold=-200).columns[-1].header == "steps\nto −200"
    assert one[:5] == ["Pendulum-v1", "SAC", "1", "2", "2,000 of 3,000"]
    assert one[5:] == ["−1,050 ± 212", "−1,050", "never (0 of 2)"]
    assert ten[:5] == ["Pendulum-v1", "SAC", "10", "2", "3,000"]
    assert ten[5:] == ["−200 ± 71", "−170", "1,500 (2 of 2)"]


def test_the_table_of_one_run_claims_no_deviation(tmp_path: Path) -> None:
    write_run(tmp_path, [(3000, 0.953)])
    (row,) = rendered(records_below(tmp_path))
    assert row[-2:] == ["0.95", "0.95"]


def test_the_figure_is_a_png_of_panels(tmp_path: Path) -> None:
    records = two_by_two(tmp_path / "runs")
    path = tmp_path / "new" / "curves.png"
    assert learning_curves(records, path, threshold=-200) == path
    one = matplotlib.image.imread(path)
    write_run(tmp_path / "runs" / "hopper", [(0, 5.0)], env="Hopper-v4", reuse="10:300000,1")
    learning_curves(records_below(tmp_path / "runs"), path)
    two = matplotlib.image.imread(path)
    assert one.shape[1] == 960  # 6.4 inches at 150 dots
    assert two.shape[1] > one.shape[1]
    assert one[..., :3].std() > 0.05  # something is drawn


def test_the_report_is_built_on_errors_only() -> None:
    """So it needs no JAX: it reads run directories, not the code that writes them."""
    for file in Path(smrl.report.__file__).parent.glob("*.py"):
        used = re.findall(r"^\s*(?:from|import) ((?:smrl|jax|flax|optax)[\w.]*)", file.read_text(), re.MULTILINE)
        assert all(name == "smrl.errors" or name.startswith("smrl.report.") for name in used), file
