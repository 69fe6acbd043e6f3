"""The report: what it excludes, what its page holds, and that page, CSV, Markdown and LaTeX agree."""

import csv
import json
import re
from importlib.resources import files
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest
from written_runs import write_run, write_study

from smrl.errors import SmrlError
from smrl.paper.bands import PUBLISHED
from smrl.report.figures import COLOURS, learning_curves
from smrl.report.page import ALL_POINTS, page
from smrl.report.report import Report, make_report, sections
from smrl.report.tables import as_csv
from smrl.report.text import TextTable, as_latex, as_markdown, interval, number

EVIL = "</script><img src=x onerror=alert(1)>\u2028&<!--"


def content(html: str) -> dict[str, Any]:
    """What the page's data block holds."""
    (block,) = re.findall(r'<script type="application/json" id="data">(.*?)</script>', html, re.DOTALL)
    found: dict[str, Any] = json.loads(block)
    return found


def table(report: Report, section: str, title: str) -> list[dict[str, str]]:
    (found,) = (one for one in sections(report)[section] if one.title == title)
    return [dict(zip(found.columns, row, strict=True)) for row in found.rows]


def test_page_and_csv_agree(tmp_path: Path) -> None:
    report = make_report([write_study(tmp_path)], published=PUBLISHED)
    rows = list(csv.DictReader(as_csv(report.rows).splitlines()))
    shown = content(page(report))["results"]
    assert [table["title"] for table in shown] == ["Hopper-v4", "dmc/cheetah-run", "Steps to a return"]
    cells = [dict(zip(table["columns"], row, strict=True)) for table in shown[:2] for row in table["rows"]]
    assert len(cells) == len(rows) == 4
    for row, cell in zip(rows, cells, strict=True):
        values = {name: float(text) for name, text in row.items() if text and name not in ("environment", "settings")}
        size = max(abs(values["mean"]), values["sd"])
        assert cell["settings"] == row["settings"]
        assert cell["return"] == f"{number(values['mean'], size)} ± {number(values['sd'], size)}"
        assert cell["IQM"] == interval(*(values[name] for name in ("iqm", "iqm_low", "iqm_high")))
        assert cell["best"] == number(values["best"])
        assert cell["mean over training"] == number(values["area"])
        assert (cell["seeds"], cell["step"]) == (row["seeds"], f"{int(row['step']):,}")
        assert cell["hours"] == number(values["hours"])


def test_numbers_of_a_linear_study(tmp_path: Path) -> None:
    """With a return of s·3,000·k/30 + 10·seed·k/30 at step 1,000·k of 30."""
    report = make_report([write_study(tmp_path)], published=PUBLISHED)
    plain, reuse = report.rows[:2]
    assert (plain.step, plain.mean, plain.sd, plain.best) == (30_000, 1510, 10, 1510)
    assert tuple(map(float, plain.iqm)) == (1510, 1500, 1520)
    assert plain.area == pytest.approx(1510 * (1 + 30) / 60)  # a straight line from step 1,000
    assert plain.hours == pytest.approx(30_000 * 0.01 / 3600)
    assert (plain.target, plain.reached.reached, reuse.reached.reached) == (3000, 0, 3)  # the paper's score
    assert reuse.reached.steps == reuse.steps_to == 24_000
    assert np.isnan([plain.steps_to, reuse.speed_up]).all()  # reuse 1 never arrives
    assert np.isnan(report.rows[2].target)
    lower = make_report([tmp_path], target=1000.0).rows
    assert [row.steps_to for row in lower[:2]] == [20_000, 8_000]
    assert lower[1].speed_up == 2.5
    assert lower[1].speed_up_hours == pytest.approx(0.25)
    assert lower[0].speed_up == 1


def test_table_of_steps_to_a_return(tmp_path: Path) -> None:
    rows = table(make_report([write_study(tmp_path)], target=1000.0), "results", "Steps to a return")
    assert [row["speed-up"] for row in rows] == ["1.00×", "2.50×", "–", "–"]
    assert rows[1] | {"hours": ""} == {
        **{"task": "Hopper-v4", "settings": "SAC, reuse 10", "return": "1,000", "steps, by seed": "8,000 (3 of 3)"},
        **{"steps, mean curve": "8,000", "speed-up": "2.50×", "hours": "", "speed-up in hours": "0.25×"},
    }
    assert (rows[2]["steps, by seed"], rows[2]["steps, mean curve"]) == ("never (0 of 3)", "never")


def test_published_results_are_beside_ours(tmp_path: Path) -> None:
    report = make_report([write_study(tmp_path)], published=PUBLISHED)
    published, paper = (table(report, "published", title) for title in ("Published curves", "The paper's tables"))
    assert [(row["task"], row["as"]) for row in published] == [
        ("Hopper-v4", "sac, 10 seeds"),
        ("dmc/cheetah-run", "sac, 3 seeds"),
    ]
    assert published[1]["remark"] == "action repeat 2 there, 1 here"
    hopper, cheetah = paper[1], paper[2]
    assert (hopper["measure"], hopper["here"], hopper["paper"], hopper["as"]) == (
        *("steps to 3,000", "24,000", "93,000", "SAC-SMR"),
    )
    assert (cheetah["measure"], cheetah["here"], cheetah["paper"]) == ("return at 250,000", "–", "284.6 ± 20.5")


def test_report_without_published_results(tmp_path: Path) -> None:
    report = make_report([write_study(tmp_path)])
    assert all(np.isnan(row.target) for row in report.rows)
    assert report.units == {"dmc/cheetah-run": 1000}, "a score on the control suite needs no published number"
    assert report.aggregates == []
    shown = content(page(report))
    assert shown["published"] == shown["sources"] == shown["aggregate"] == []
    assert {series["kind"] for panel in shown["panels"] for series in panel["series"]} == {"ours"}
    assert "Steps to a return" not in [table["title"] for table in shown["results"]]


def test_statistics_over_tasks_are_of_scores(tmp_path: Path) -> None:
    report = make_report([write_study(tmp_path)], published=PUBLISHED)
    sac = PUBLISHED.unit("Hopper-v4")
    assert sac is not None
    assert report.units == {"Hopper-v4": sac, "dmc/cheetah-run": 1000}
    plain, reuse = report.aggregates
    np.testing.assert_allclose(plain.scores, [[(1500 + 10 * s) / sac, (400 + 10 * s) / 1000] for s in range(3)])
    np.testing.assert_array_equal(reuse.improvement, 1)
    assert np.isnan(plain.improvement.value)
    assert reuse.gap.value == pytest.approx(0.0, abs=1e-3)
    shown = content(page(report))
    assert shown["profile"]["series"][0]["mean"][0] == 1
    assert shown["aggregate"][0]["columns"][-1] == "probability of improvement over SAC, reuse 1"


def test_aggregates_compare_at_a_common_step(tmp_path: Path) -> None:
    write_study(tmp_path)
    for seed in (0, 1):  # as many seeds on all tasks
        for env in ("Hopper-v4", "dmc/cheetah-run"):
            place = tmp_path / "td3" / env / f"{seed}"
            write_run(place, [(10_000, 100.0)], env=env, algorithm="td3", seed=seed, steps=30_000)
    found = make_report([tmp_path], published=PUBLISHED).aggregates
    assert [one.scores.shape for one in found] == [(3, 2), (3, 2), (2, 2)]
    np.testing.assert_allclose(found[0].scores[0, 1], 400 / 3 / 1000)
    write_run(tmp_path / "ddpg", [(10_000, 100.0)], algorithm="ddpg")  # on one task of the two
    assert len(make_report([tmp_path], published=PUBLISHED).aggregates) == 3


def test_text_of_runs_is_not_html(tmp_path: Path) -> None:
    place = tmp_path / "<img src=x onerror=alert(1)>"
    write_run(place, [(1000, 1.0)], env=EVIL, algorithm=f"m:{EVIL}", tau=EVIL)
    html = page(make_report([tmp_path]))
    assert "<img" not in html
    assert html.count("</script>") == 2
    assert "\u2028" not in html
    assert EVIL in json.dumps(content(html), ensure_ascii=False)
    (policy,) = re.findall(r'Content-Security-Policy" content="(.*?)"', html)
    assert policy.startswith("default-src 'none'; script-src 'sha256-")
    assert "unsafe" not in policy
    assert set(re.findall(r"https?://[\w.]+", html.partition('id="data"')[0])) == set()
    assert set(re.findall(r"https?://[\w.]+", html.rpartition("<script>")[2])) == {"http://www.w3.org"}  # SVG's name


def test_placeholder_in_a_run_is_not_replaced(tmp_path: Path) -> None:
    write_run(tmp_path / "run", [(1000, 1.0)], env="{{script}}{{data}}{{style}}{{policy}}")
    assert content(page(make_report([tmp_path])))["panels"][0]["title"] == "{{script}}{{data}}{{style}}{{policy}}"


def test_page_of_a_hundred_runs_is_below_a_megabyte(tmp_path: Path) -> None:
    html = page(make_report([write_study(tmp_path, seeds=25, points=500)], published=PUBLISHED))
    assert len(html.encode()) < 1_000_000
    series = content(html)["panels"][0]["series"][0]
    assert series["steps"][0] == 1000
    assert series["steps"][-1] == 500_000
    assert len(series["lines"]) == 25
    assert sum(len(line["mean"]) for line in series["lines"]) < ALL_POINTS // 4  # as do those of the three other means


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda run: (run / "evaluations.csv").unlink(), "holds no evaluation yet"),
        (lambda run: (run / "evaluations.csv").write_text("step,episodes,mean\n"), "holds no evaluation yet"),
        (lambda run: (run / "evaluations.csv").write_text(""), "holds no evaluation yet"),
        (lambda run: (run / "evaluations.csv").write_text("step,episodes,mean\n1,10,x\n"), "is damaged"),
        (lambda run: (run / "evaluations.csv").write_text("step,episodes,mean\n1,10,nan\n"), "no finite number"),
        (lambda run: (run / "config.json").write_text('{"format": 4, "sett'), "it is not JSON"),
        (lambda run: (run / "config.json").unlink(), "it has no config.json"),
        (
            lambda run: (run / "config.json").write_text('{"format": 99}'),
            "was written by another version of smrl; use that",
        ),
    ],
)
def test_unusable_run_is_excluded_with_a_message(tmp_path: Path, spoil: Any, message: str) -> None:
    write_run(tmp_path / "good", [(1000, 1.0)])
    bad = write_run(tmp_path / "bad", [(1000, 2.0)], seed=1)
    spoil(bad)
    report = make_report([tmp_path])
    assert [str(run.record.path) for run in report.runs] == [str(tmp_path / "good")]
    (problem,) = report.problems
    assert message in problem
    assert str(bad) in problem
    assert content(page(report))["problems"] == [problem]
    with pytest.raises(SmrlError, match="no run can be reported on: "):
        make_report([bad])


def test_unreadable_training_times_are_unknown(tmp_path: Path) -> None:
    for name, text in (("a", "step,seconds\n1000,x\n"), ("b", "nothing"), ("c", "step,seconds\n2000,5\n")):
        run = write_run(tmp_path / name, [(1000, 1.0)], seed=ord(name))
        (run / "training.csv").write_text(text)
    report = make_report([tmp_path])
    assert report.problems == ()
    assert np.isnan(report.rows[0].hours)
    assert content(page(report))["panels"][0]["series"][0]["hours"] is None


def test_columns_of_training_have_curves(tmp_path: Path) -> None:
    """Means over seeds at the steps that both have; a run without these columns has no such panel."""
    tables = {0: "step,reuse,seconds\n1000,4,1\n1500,5,2\n2000,8,3\n", 1: "step,seconds,reuse\n1000,1,2\n2000,3,\n"}
    for seed, text in tables.items():
        run = write_run(tmp_path / f"auto{seed}", [(1000, 1.0), (2000, 2.0)], seed=seed, reuse="auto:20")
        (run / "training.csv").write_text(text)
    write_run(tmp_path / "plain", [(1000, 1.0)])
    first, second = content(page(make_report([tmp_path])))["panels"]
    assert first["title"] == "Hopper-v4"
    assert second["title"] == "Hopper-v4: reuse"
    (series,) = second["series"]
    assert (series["steps"], series["mean"]) == ([1000], [3])


def test_seeds_of_different_lengths_are_reported(tmp_path: Path) -> None:
    write_run(tmp_path / "a", [(1000, 1.0), (2000, 9.0), (3000, 5.0)], seed=0)
    write_run(tmp_path / "b", [(1000, 3.0)], seed=1)
    report = make_report([tmp_path])
    assert (report.rows[0].step, report.rows[0].mean, report.rows[0].best) == (1000, 2, 6)
    (row,) = csv.DictReader(as_csv(report.rows).splitlines())
    assert (row["step"], row["budget"], row["mean"], row["best"]) == ("1000", "3000", "2.0", "6.0")
    assert report.problems == (
        "SAC, reuse 1, Hopper-v4: means end at step 1,000, the last that all seeds evaluated; seeds end: 0 at 3,000, "
        "1 at 1,000.",
    )


def test_seeds_without_a_common_step_are_reported(tmp_path: Path) -> None:
    write_run(tmp_path / "a", [(1000, 1.0)], seed=0)
    write_run(tmp_path / "b", [(1500, 3.0)], seed=1)
    report = make_report([tmp_path], target=2.0)
    assert "its seeds have no step in common" in report.problems[0]
    (row,) = table(report, "results", "Hopper-v4")
    assert (row["return"], row["step"], row["best"]) == ("–", "–", "2.00")
    assert table(report, "results", "Steps to a return")[0]["steps, by seed"] == "1,500 (1 of 2)"
    assert content(page(report))["panels"][0]["series"] == []


def test_seed_counts_once(tmp_path: Path) -> None:
    """Before the interval of evaluations was left out of the identity, such runs had two folders."""
    write_run(tmp_path / "a", [(1000, 1.0), (2000, 2.0)], eval_every=1000)
    write_run(tmp_path / "b", [(2000, 9.0)], eval_every=2000)
    write_run(tmp_path / "c", [(2000, 4.0)], eval_every=2000, seed=1)
    report = make_report([tmp_path])
    (row,) = report.rows
    assert (row.returns.tolist(), row.step) == ([2.0, 4.0], 2000)
    assert report.problems == (f"{tmp_path / 'b'} is not counted: {tmp_path / 'a'} has the same settings and seed 0.",)
    assert ("eval_every", "1,000 or 2,000") in {
        tuple(row.values()) for row in table(report, "runs", "Settings of all runs")
    }


def test_page_and_figures_have_the_same_colours() -> None:
    style = files("smrl.report").joinpath("page", "style.css").read_text()
    light = re.findall(r"--c\d: (#\w+)", style.partition("@media")[0])
    assert [colour.upper() for colour in light] == list(COLOURS)


def test_run_given_twice_counts_once(tmp_path: Path) -> None:
    run = write_run(tmp_path / "a", [(1000, 1.0)])
    assert len(make_report([tmp_path, run, tmp_path / "a" / ".." / "a"]).runs) == 1


def test_folders_must_hold_runs(tmp_path: Path) -> None:
    with pytest.raises(SmrlError, match="is not a folder"):
        make_report([tmp_path / "nowhere"])
    with pytest.raises(SmrlError, match="holds no run"):
        make_report([tmp_path])


def test_settings_and_versions_are_shown(tmp_path: Path) -> None:
    write_run(tmp_path / "a", [(1000, 1.0)], tau=0.01)
    write_run(tmp_path / "b", [(1000, 1.0)], reuse="10")
    report = make_report([tmp_path])
    shared = {row["setting"]: row["value"] for row in table(report, "runs", "Settings of all runs")}
    assert (shared["gamma"], shared["actor_hidden"]) == ("0.99", "256×256")
    assert [row["in detail"] for row in table(report, "runs", "Settings that differ")] == ["tau 0.01", "tau 0.005"]
    runs = table(report, "runs", "Runs")
    assert [(row["run"], row["made with"]) for row in runs] == [(str(tmp_path / name), "1") for name in "ab"]
    (made,) = table(report, "runs", "Versions and machines")
    assert made["versions"] == "smrl 0.1.0, jax 0.10.2"
    assert made["machine"] == "processor a processor, threads 1, backend cpu"


def test_texts_of_a_run_are_harmless_in_every_file(tmp_path: Path) -> None:
    formula, script = "=cmd|' /C calc'!A0", "<script>alert(1)</script>[x](javascript:alert(1))\x1b[2J`"
    write_run(tmp_path / "a", [(1000, -1.5)], env=formula, algorithm="my:a")
    write_run(tmp_path / "b", [(1000, -2.5)], env=script, algorithm="-1+1:@x")
    report = make_report([tmp_path])
    text = as_csv(report.rows)
    rows = list(csv.DictReader(text.splitlines()))
    assert sorted((row["environment"], row["settings"]) for row in rows) == [
        ("'" + formula, "my:a, reuse 1"),
        (script.replace("\x1b", "�"), "'-1+1:@x, reuse 1"),
    ]
    assert sorted(float(row["mean"]) for row in rows) == [-2.5, -1.5], "numbers stay numbers"
    markdown = as_markdown(sections(report)["results"])
    assert "&lt;script&gt;alert(1)&lt;/script&gt;[x]\\(javascript:alert(1))�[2J\\`" in markdown
    assert "<" not in markdown
    for written in (text, markdown, as_latex(sections(report)["results"])):
        assert all(sign.isprintable() or sign == "\n" for sign in written)
    svg = learning_curves([run.record for run in report.runs], tmp_path / "curves.svg")
    ElementTree.parse(svg)  # raises an error if there is a control character


def test_markdown_and_latex_escape() -> None:
    text_table = TextTable("a\nb", ("settings", "value"), (("x|y_z", "−1 ± 2 %"),), "50 %", ("settings",))
    assert as_markdown([text_table]) == "## a b\n\n| settings | value |\n|---|---:|\n| x\\|y_z | −1 ± 2 % |\n\n50 %\n"
    latex = as_latex([text_table])
    assert "% a b\n\\begin{tabular}{lr}\n\\toprule\nsettings & value \\\\\n\\midrule\n" in latex
    assert "x|y\\_z & $-$1 $\\pm$ 2 \\% \\\\\n\\bottomrule\n\\end{tabular}\n\n50 \\%\n" in latex
