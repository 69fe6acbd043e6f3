import json
import re
import subprocess
import sys
from collections.abc import Sequence
from io import StringIO
from pathlib import Path
from typing import Any

import matplotlib.image
import numpy as np
import pytest
from matplotlib.figure import Figure
from rich.cells import cell_len
from rich.console import Console
from written_runs import make_config

from smrl.errors import SmrlError
from smrl.report.figures import learning_curves
from smrl.report.results import Reached, colour_numbers, curve_names, curves, mean_steps_to, setting_names
from smrl.report.tables import comparison_tables
from smrl.report.text import TextTable, as_terminal
from smrl.runs.records import Record

FORBIDDEN = ("jax", "jaxlib", "flax", "optax", "gymnasium", "mujoco")


def record(evaluations: Sequence[tuple[int, float]], env: str = "Pendulum-v1", **changes: Any) -> Record:
    settings = {
        "algorithm": "sac",
        "env": env,
        "reuse": "10",
        "seed": 0,
        "steps": 3000,
        "tau": 0.005,
        "batch_size": 256,
    }
    steps, returns = zip(*evaluations, strict=True)
    return Record(Path("run"), settings | changes, np.array(steps), np.array(returns, np.float64), episodes=10)


def two_by_two() -> list[Record]:
    return [
        record([(1000, -1200.0), (2000, -180.0), (3000, -150.0)], seed=0),
        record([(1000, -190.0), (2000, -220.0), (3000, -250.0)], seed=1),
        record([(1000, -1300.0), (2000, -1200.0)], reuse="1", seed=0),
        record([(1000, -1100.0), (2000, -1000.0), (3000, -900.0)], reuse="1", seed=1),
    ]


def sweep(**changes: Any) -> list[Record]:
    """Algorithm × reuse × tau, two seeds each."""
    return [
        record([(3000, float(seed))], algorithm=algorithm, reuse=reuse, tau=tau, seed=seed, **changes)
        for seed in (1, 0)
        for tau in (0.02, 0.005)
        for reuse in ("10", "2")
        for algorithm in ("td3", "sac")
    ]


def printed(records: Sequence[Record], threshold: float | None = None, width: int = 80) -> str:
    output = StringIO()
    for each in comparison_tables(records, threshold):
        Console(file=output, width=width).print(each)
    return output.getvalue()


def rows(text: str) -> list[list[str]]:
    """The cells of a printed table as a reader sees them, below its header."""
    return [re.split(r" {2,}", line.strip()) for line in text.split("──")[-1].splitlines() if line.strip(" ─")]


def headers(records: Sequence[Record]) -> list[str]:
    return [str(column.header).replace("\n", " ") for column in comparison_tables(records)[0].columns]


def drawn(
    records: Sequence[Record], path: Path, monkeypatch: pytest.MonkeyPatch, threshold: float | None = None
) -> Figure:
    """The figure that is saved."""
    saved: list[Figure] = []
    monkeypatch.setattr(Figure, "savefig", lambda figure, *args, **keywords: saved.append(figure))
    learning_curves(records, path, threshold)
    return saved[0]


def legend(figure: Figure) -> list[str]:
    return [text.get_text() for text in figure.legends[0].get_texts()]


def test_curves_join_the_steps_that_all_seeds_have() -> None:
    one, ten = curves(two_by_two())
    assert (one.settings["reuse"], ten.settings["reuse"]) == ("1", "10")
    assert one.steps.tolist() == [1000, 2000]
    assert one.mean.tolist() == [-1200.0, -1100.0]
    np.testing.assert_allclose(one.sd, [20000**0.5, 20000**0.5])
    assert ten.mean.tolist() == [-695.0, -200.0, -200.0]


def test_single_seed_has_no_deviation() -> None:
    (curve,) = curves([record([(1000, -5.0), (2000, -4.0)])])
    assert np.isnan(curve.sd).tolist() == [True, True], "not 0: the spread over seeds is unknown"


@pytest.mark.parametrize("changes", [{"tau": 0.01}, {"batch_size": 400}, {"algorithm": "td3"}, {"env": "Ant-v4"}])
def test_different_settings_are_never_averaged(changes: dict[str, Any]) -> None:
    found = curves([record([(1000, 0.0)]), record([(1000, 1.0)], seed=1, **changes)])
    assert sorted(curve.mean.tolist() for curve in found) == [[0.0], [1.0]]


def test_runs_of_different_length_are_averaged() -> None:
    (curve,) = curves([record([(1000, 0.0)]), record([(1000, 1.0), (2000, 2.0)], seed=1, steps=9000)])
    assert curve.mean.tolist() == [0.5]
    (apart,) = curves([record([(500, 0.0)], steps=500), record([(1000, 1.0)], seed=1)])
    assert apart.steps.size == apart.mean.size == 0


def test_curves_are_ordered_by_what_varies() -> None:
    records = [record([(1000, 0.0)], reuse=reuse) for reuse in ("rules:auto", "10", "2", "10:5000,1", "1")]
    found = [(curve.env, curve.settings["reuse"]) for curve in curves([*records, record([(1000, 0.0)], "Ant-v4")])]
    assert found[0] == ("Ant-v4", "10")
    assert [reuse for _, reuse in found[1:]] == ["1", "2", "10", "10:5000,1", "rules:auto"]
    values = [None, 2, 10.0, [64, 64], [256], "a2", "a10"]
    records = [record([(1000, 0.0)], tau=tau) for tau in reversed(values)]
    assert [curve.settings["tau"] for curve in curves(records)] == values
    order = [(curve.settings["algorithm"], curve.settings["reuse"], curve.settings["tau"]) for curve in curves(sweep())]
    assert order == [(name, reuse, tau) for name in ("sac", "td3") for reuse in ("2", "10") for tau in (0.005, 0.02)]


def test_steps_to_a_threshold() -> None:
    records = two_by_two()
    assert mean_steps_to(records[:1], -180.0) == Reached(2000.0, 1, 1)  # reaching it exactly counts
    assert mean_steps_to(records[1:2], -200.0) == Reached(1000.0, 1, 1)  # and it need not be kept
    assert mean_steps_to(records[:2], -200.0) == Reached(1500.0, 2, 2)
    assert str(mean_steps_to(records[:2], -200.0)) == "1,500 (2 of 2)"
    assert str(mean_steps_to(records[:3], -200.0)) == "1,500 (2 of 3)"
    assert str(mean_steps_to(records[2:], -200.0)) == "never (0 of 2)"


def test_comparison_table() -> None:
    text = printed(two_by_two(), threshold=-200)
    assert text.startswith("Pendulum-v1")
    assert comparison_tables(two_by_two(), threshold=-200)[0].columns[-1].header == "steps\nto −200"
    assert headers(two_by_two()) == ["algorithm", "reuse", "runs", "steps", "return at the end", "best return"]
    assert rows(text) == [
        ["SAC", "1", "2", "2,000 of 3,000", "−1,100 ± 141", "−1,050", "never (0 of 2)"],
        ["SAC", "10", "2", "3,000", "−200 ± 71", "−170", "1,500 (2 of 2)"],
    ]


def test_comparison_table_of_several_environments() -> None:
    text = printed([*two_by_two(), record([(3000, 1.0)], "Ant-v4")])
    words = re.findall(r"^(?:Ant-v4|Pendulum-v1|SAC)", text, re.MULTILINE)
    assert words == ["Ant-v4", "SAC", "Pendulum-v1", "SAC", "SAC"]


def test_comparison_table_has_a_column_per_varying_setting() -> None:
    records = [*sweep(), record([(3000, 0.0)], batch_size=4000), record([(3000, 0.0)], tau=True)]
    assert headers(records)[:5] == ["algorithm", "reuse", "tau", "batch", "runs"]
    found = [row[:5] for row in rows(printed(records))]
    assert found[0] == ["SAC", "2", "0.005", "256", "2"]
    assert ["SAC", "10", "0.005", "4,000", "1"] in found
    assert ["SAC", "10", "yes", "256", "1"] in found
    assert len(found) == 10
    older = record([(3000, 0.0)])
    del older.settings["tau"]
    assert [row[2] for row in rows(printed([older, record([(3000, 0.0)])]))] == ["–", "0.005"]


def test_comparison_table_fits_80_columns() -> None:
    """With the largest numbers that are common, in a terminal that would allow for more."""
    records = [
        record([(300_000, 10_000.0 + 2_000 * seed)], "HalfCheetahPyBulletEnv-v0", reuse=reuse, seed=seed, steps=300_000)
        for reuse in ("1", "10")
        for seed in range(10)
    ]
    wide, narrow = (printed(records, threshold=12_000, width=width) for width in (200, 80))
    assert wide == narrow
    assert rows(wide)[1] == ["SAC", "10", "10", "300,000", "19,000 ± 6,055", "19,000", "300,000 (9 of 10)"]


def test_narrow_table_wraps_words_but_not_results() -> None:
    records = [each for env in ("HalfCheetahPyBulletEnv-v0", "Ant-v4") for each in sweep(env=env, steps=300_000)]
    text = printed(records, threshold=-12_000)
    assert max(map(len, text.splitlines())) <= 80
    assert len(re.findall(r" 0\.50 ± 0\.71 +0\.50  3,000 \(2 of 2\)", text)) == 16


def test_single_run_has_no_deviation() -> None:
    (row,) = rows(printed([record([(3000, 0.953)])]))
    assert row[-2:] == ["0.95", "0.95"]


def test_figure_is_a_png_of_panels(tmp_path: Path) -> None:
    path = tmp_path / "new" / "curves.png"
    assert learning_curves(two_by_two(), path, threshold=-200) == path
    one = matplotlib.image.imread(path)
    learning_curves([*two_by_two(), record([(0, 5.0)], "Hopper-v4", reuse="10:300000,1")], path)
    two = matplotlib.image.imread(path)
    assert one.shape[1] == 960  # 6.4 inches at 150 dots
    assert two.shape[1] > one.shape[1]
    assert one[..., :3].std() > 0.05  # something is drawn


def test_names_are_not_formulas(tmp_path: Path) -> None:
    records = [record([(1000, 0.0), (2000, 1.0)], r"$\frac$", tau=tau) for tau in ("$_$", 0.1)]
    learning_curves(records, tmp_path / "curves.svg")
    assert r"$\frac$" in (tmp_path / "curves.svg").read_text()


def test_legend_names_what_differs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    figure = drawn(two_by_two(), tmp_path / "curves.png", monkeypatch)
    assert legend(figure) == ["SAC, reuse 1", "SAC, reuse 10"]
    figure = drawn(sweep(), tmp_path / "curves.png", monkeypatch)
    names = [
        f"{name}, reuse {reuse}{tau}" for name in ("SAC", "TD3") for reuse in (2, 10) for tau in ("", ", tau 0.02")
    ]
    assert legend(figure) == names  # without the default of tau


def test_panels_share_labels_and_colours(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A curve has the same colour and label in all panels, also where nothing varies in one of them."""
    ant, hopper = record([(3000, 0.0)], "Ant-v4"), [record([(3000, 0.0)], "Hopper-v4", tau=tau) for tau in (0.005, 0.1)]
    figure = drawn([ant, *hopper], tmp_path / "curves.png", monkeypatch)
    assert legend(figure) == ["SAC, reuse 10", "SAC, reuse 10, tau 0.1"]
    first, second = (
        [(line.get_label(), line.get_color()) for line in axes.lines if not str(line.get_label()).startswith("_")]
        for axes in figure.axes
    )
    assert first == second[:1]


def test_names_hold_within_a_panel_and_an_algorithm() -> None:
    """Only SAC on Hopper has two tau; evaluation settings and values of the preset are never named."""
    several = [
        record([(3000, 0.0)], "Hopper-v4", tau=0.02, eval_every=10),
        record([(3000, 0.0)], "Hopper-v4", tau=0.03, eval_every=20),
        record([(3000, 0.0)], "Hopper-v4", algorithm="td3", tau=0.02),
        record([(3000, 0.0)], "Ant-v4", tau=0.02),
        record([(3000, 0.0)], "CartPole-v1", algorithm="dqn", batch_size=128),  # as in the preset
        record([(3000, 0.0)], "CartPole-v1", algorithm="dqn", batch_size=64),
    ]
    found = curves(several)
    names = {(curve.env, curve.settings["algorithm"]): [] for curve in found}  # type: dict[tuple[str, str], list[str]]
    for curve, name in zip(found, curve_names(found), strict=True):
        names[curve.env, curve.settings["algorithm"]].append(name)
    assert names == {
        ("Ant-v4", "sac"): ["SAC, reuse 10"],
        ("CartPole-v1", "dqn"): ["DQN, reuse 10, batch 64", "DQN, reuse 10"],
        ("Hopper-v4", "sac"): ["SAC, reuse 10, tau 0.02", "SAC, reuse 10, tau 0.03"],
        ("Hopper-v4", "td3"): ["TD3, reuse 10"],
    }


def test_values_are_named_where_names_would_be_the_same() -> None:
    found = curves([record([(3000, 0.0)], n_step=1), record([(3000, 0.0)])])  # the latter from before the setting
    assert sorted(curve_names(found)) == ["SAC, reuse 10", "SAC, reuse 10, n step 1"]


def test_a_setting_has_one_colour_whatever_runs_on_other_tasks() -> None:
    hopper = [record([(3000, 0.0)], "Hopper-v4", reuse=reuse) for reuse in ("1", "10")]
    others = [
        *(record([(3000, 0.0)], "Ant-v4", algorithm="ddpg", reuse=reuse) for reuse in ("1", "2", "5")),
        record([(3000, 0.0)], "dmc/cheetah-run", reuse="10"),
    ]
    alone, together = (
        colour_numbers(found, setting_names(found)) for found in (curves(hopper), curves([*others, *hopper]))
    )
    assert alone == {"SAC, reuse 1": 0, "SAC, reuse 10": 1}
    assert alone.items() <= together.items()
    assert sorted(number for name, number in together.items() if name.startswith("DDPG")) == [0, 1, 2]


def test_many_curves_are_told_apart_without_dashes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    records = [record([(1000, 0.0), (2000, 1.0)], reuse=f"{reuse}") for reuse in range(1, 20)]
    figure = drawn(records, tmp_path / "curves.png", monkeypatch, threshold=0.5)
    lines = figure.axes[0].lines
    assert {line.get_linestyle() for line in lines} == {"-"}
    assert len({(line.get_color(), line.get_marker()) for line in lines}) == len(lines)


def test_panels_have_their_own_legends_where_names_mean_different_curves(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ant, hopper = (
        record([(3000, 0.0)], "Ant-v4", tau=0.1),
        [record([(3000, 0.0)], "Hopper-v4", tau=t) for t in (0.1, 0.2)],
    )
    figure = drawn([ant, *hopper, record([(3000, 0.0)], "Hopper-v4")], tmp_path / "curves.png", monkeypatch)
    assert figure.legends == []
    shown = [[text.get_text() for text in axes.get_legend().get_texts()] for axes in figure.axes]  # type: ignore[union-attr]
    assert shown == [["SAC, reuse 10"], ["SAC, reuse 10", "SAC, reuse 10, tau 0.1", "SAC, reuse 10, tau 0.2"]]
    colours = [{line.get_label(): line.get_color() for line in axes.lines} for axes in figure.axes]
    assert colours[0]["SAC, reuse 10"] == colours[1]["SAC, reuse 10, tau 0.1"]  # the same setting


def test_seeds_that_were_evaluated_differently_are_averaged_where_all_were() -> None:
    often = record([(1000, 1.0), (2000, 2.0), (3000, 3.0), (4000, 4.0)], eval_every=1000, seed=0)
    seldom = record([(2000, 4.0), (4000, 8.0)], eval_every=2000, eval_episodes=1, seed=1)
    (curve,) = curves([often, seldom])
    assert curve.steps.tolist() == [2000, 4000]
    assert curve.mean.tolist() == [3, 6]


def test_long_legend_does_not_shrink_the_panels(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    short = drawn(two_by_two(), tmp_path / "curves.png", monkeypatch)
    long = drawn(sweep(), tmp_path / "curves.png", monkeypatch)
    heights = []
    for figure in (short, long):
        figure.draw_without_rendering()  # lays out
        heights.append(figure.axes[0].get_position().height * figure.get_figheight())
    assert heights[1] > 0.9 * heights[0]


def test_nothing_to_draw_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SmrlError, match="no evaluation to draw yet"):
        learning_curves([], tmp_path / "curves.png")


def test_reading_runs_and_drawing_figures_needs_no_jax(tmp_path: Path) -> None:
    settings = {"algorithm": "sac", "env": "Ant-v4", "reuse": "1", "seed": 0, "steps": 1000, "hyper": {}}
    (tmp_path / "config.json").write_text(json.dumps(make_config(settings)))
    (tmp_path / "evaluations.csv").write_text("step,episodes,mean\n1000,10,5.0\n")
    program = f"""
import sys
from pathlib import Path

class Forbid:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {FORBIDDEN}:
            raise ModuleNotFoundError(name + " is forbidden")

sys.meta_path.insert(0, Forbid())
try:
    import jax
except ModuleNotFoundError:
    print("forbidden")

from rich import print
from smrl.report.figures import learning_curves
from smrl.report.tables import comparison_tables
from smrl.runs.paths import find
from smrl.runs.records import read_runs

here = Path(sys.argv[1])
records = read_runs(here)
learning_curves(records, here / "curves.png")
print(*comparison_tables(records))
print(find(records[0].settings, {{}}, here).name)
"""
    command = [sys.executable, "-c", program, str(tmp_path)]
    answer = subprocess.run(command, capture_output=True, text=True, check=False)
    assert answer.returncode == 0, answer.stderr
    assert answer.stdout.startswith("forbidden")
    assert answer.stdout.endswith("seed0\n")
    assert (tmp_path / "curves.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize("width", [120, 80, 60, 40, 30])
def test_tables_do_not_break_words(width: int) -> None:
    env = "dmc-pixels/walker-walk"
    records = [*sweep(env=env, exploration="mean-plus-noise"), *sweep(exploration="sample", env=env)]
    wide, narrow = printed(records, -200.0, 300), printed(records, -200.0, width)
    words = {word for word in re.split(r"[\s─;]+", wide) if len(word) > 1}
    assert {"dmc-pixels/walker-walk", "mean-plus-noise", "algorithm"} <= words
    assert words - {"algorithm"} <= set(re.split(r"[\s─;]+", narrow))  # the first column of a paragraph has no name
    assert all(cell_len(line) <= width for line in narrow.splitlines())
    table = TextTable("A table", ("settings", "measurement"), (("SAC, reuse 10", "1,234,567 ± 1,234,567"),) * 2)
    output = StringIO()
    Console(file=output, width=width).print(as_terminal(table))
    assert output.getvalue().count("1,234,567") == 4
