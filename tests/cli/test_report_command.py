"""`smrl report`: files by their endings, comparison with published results, and refusals."""

import csv
from pathlib import Path

import matplotlib.image
import pytest
from commands import refused
from commands import run as command
from written_runs import write_run, write_study

from smrl.cli.main import main


def test_every_kind_of_file_is_written(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    runs, new = write_study(tmp_path / "runs"), tmp_path / "new"
    endings = ("html", "csv", "md", "tex", "png", "pdf", "svg")
    files = [new / f"report.{ending}" for ending in endings]
    main(["report", str(runs), "-o", *map(str, files), "--target", "1000", "--published"])
    output = capsys.readouterr()
    lines = output.out.splitlines()
    assert lines[:7] == [f"report: {file}" for file in files]
    assert all(line.startswith(("above ", "unknown ")) for line in lines[7:])
    assert output.err == ""
    html, table, markdown, latex, png, pdf, svg = files
    assert html.read_text().startswith("<!doctype html>")
    rows = list(csv.DictReader(table.read_text().splitlines()))
    assert [(row["environment"], row["settings"], row["steps_to"]) for row in rows[:2]] == [
        ("Hopper-v4", "SAC, reuse 1", "20000.0"),
        ("Hopper-v4", "SAC, reuse 10", "8000.0"),
    ]
    assert rows[2]["speed_up"] == rows[2]["steps_to"] == ""  # never
    assert (rows[2]["seeds_reached"], rows[1]["seed_steps_to"]) == ("0", "8000.0")
    titles = [
        "Hopper-v4",
        "dmc/cheetah-run",
        "Steps to a return",
        "Over all tasks",
        "Published curves",
        "The paper's tables",
    ]
    assert [line[3:] for line in markdown.read_text().splitlines() if line.startswith("## ")] == titles
    assert latex.read_text().count("\\begin{tabular}") == latex.read_text().count("\\end{tabular}") == 6
    assert matplotlib.image.imread(png).std() > 0.05
    assert pdf.read_bytes().startswith(b"%PDF")
    assert "<svg" in svg.read_text()


def test_the_same_runs_give_the_same_files(tmp_path: Path) -> None:
    runs = write_study(tmp_path / "runs", seeds=2, points=3)
    for ending in ("html", "csv", "svg", "pdf"):
        pair = [tmp_path / f"{name}.{ending}" for name in "ab"]
        for file in pair:
            main(["report", str(runs), "-o", str(file)])
        assert pair[0].read_bytes() == pair[1].read_bytes()


def test_default_output_is_a_page(in_tmp_path: Path) -> None:
    write_run(in_tmp_path / "runs" / "a", [(1000, 1.0)])
    main(["report", "runs"])
    assert (in_tmp_path / "report.html").exists()


def test_a_damaged_run_is_one_line_and_the_rest_is_reported(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_run(tmp_path / "good", [(1000, 1.0)])
    (write_run(tmp_path / "bad", [(1000, 1.0)], seed=1) / "config.json").write_text("{")
    main(["report", str(tmp_path), "-o", str(tmp_path / "report.csv")])
    errors = capsys.readouterr().err
    assert errors.startswith(f"smrl: {tmp_path / 'bad' / 'config.json'} is damaged: it is not JSON; ")
    assert errors.count("\n") == 1
    assert len((tmp_path / "report.csv").read_text().splitlines()) == 2


def test_strange_names_are_written_as_they_are(tmp_path: Path) -> None:
    write_run(tmp_path / "run", [(1000, 1.0), (2000, 2.0)], env="$\\frac é")
    for ending in ("html", "csv", "md", "tex", "svg"):
        main(["report", str(tmp_path), "-o", str(tmp_path / f"report.{ending}")])
    assert "$\\frac é" in (tmp_path / "report.csv").read_text()


def test_name_that_is_no_text_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Half of a pair of code units can be written to JSON, but to no figure."""
    write_run(tmp_path / "run", [(1000, 1.0), (2000, 2.0)], env="a\udc80")
    for ending in ("html", "svg", "png"):
        with pytest.raises(SystemExit, match="2"):
            main(["report", str(tmp_path), "-o", str(tmp_path / f"report.{ending}")])
        assert "config.json is damaged" in capsys.readouterr().err


def test_refused(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", [(1000, 1.0)])
    (tmp_path / "file").write_text("")
    assert "is not a folder" in refused("report", tmp_path / "nowhere")
    assert "must end in .html, " in refused("report", run, "-o", tmp_path / "report.doc")
    assert "cannot write" in refused("report", run, "-o", tmp_path / "file" / "report.html")
    assert "did you mean --target?" in refused("report", run, "--targte", "3")
    assert "required: RUNS; see smrl report --help" in refused("report")
    (run / "evaluations.csv").write_text("")
    assert "no run can be reported on" in refused("report", run)


def test_published_results(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A run below the published band is exit code 1; otherwise, one that cannot be read is exit code 2."""
    runs, words = (
        tmp_path / "runs",
        ["report", str(tmp_path / "runs"), "-o", str(tmp_path / "report.csv"), "--published"],
    )
    write_run(runs / "a", [(300_000, 8600.0)], env="HalfCheetah-v4", steps=300_000)
    write_run(runs / "b", [(300_000, 1.0)], env="Pendulum-v1", steps=300_000)
    main(words)
    _, *lines = capsys.readouterr().out.splitlines()
    assert sorted(line.split()[0] for line in lines) == ["unknown", "within"]
    (write_run(runs / "c", [], env="HalfCheetah-v4", seed=2) / "evaluations.csv").unlink()
    code, _, errors = command(*words)
    assert code == 2
    assert "holds no evaluation yet" in errors
    assert errors.count("\n") == 1
    write_run(runs / "d", [(300_000, 100.0)], env="HalfCheetah-v4", seed=1, steps=300_000)
    code, output, _ = command(*words)
    assert code == 1
    assert sorted(line.split()[0] for line in output.splitlines()[1:]) == ["below", "unknown", "within"]


def test_control_characters_are_not_printed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_run(tmp_path / "a", [(1000, 1.0)], env="\x1b[31mred")
    (write_run(tmp_path / "\x1b[31mred", [(1000, 1.0)]) / "evaluations.csv").unlink()
    with pytest.raises(SystemExit):
        main(["report", str(tmp_path), "-o", str(tmp_path / "report.csv"), "--published"])
    messages = capsys.readouterr()
    assert "�[31mred" in messages.out
    assert "�[31mred" in messages.err
    assert "\x1b" not in messages.out + messages.err
