"""`smrl report --figure`: figures for papers."""

import re
from pathlib import Path

import matplotlib.image
import numpy as np
import pytest
from commands import refused_here
from written_runs import write_run, write_study

from smrl.cli.main import main
from smrl.report.results import band, curves
from smrl.runs.records import read_runs
from smrl.statistics import iqm

LABELS = """
[curves]
"SAC, reuse 10" = "SAC-SMR (M = 10)"
[tasks]
"dmc/cheetah-run" = "Cheetah, run"
"""


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_study(tmp_path_factory.mktemp("runs"), points=4)


def test_fonts_are_embeddable(tmp_path: Path, runs: Path) -> None:
    """Submission systems refuse Type 3; Type 42 is a CIDFontType2 in a PDF."""
    for words in (["--figure"], ["-o"]):
        main(["report", str(runs / "Hopper-v4"), *words, str(tmp_path / "curves.pdf")])
        content = (tmp_path / "curves.pdf").read_bytes()
        assert b"/Type3" not in content
        assert b"/CIDFontType2" in content


def test_one_figure_of_panels_has_the_names_and_the_width(
    tmp_path: Path, runs: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "labels.toml").write_text(LABELS)
    words = [
        "report",
        str(runs),
        "--panels",
        "--labels",
        str(tmp_path / "labels.toml"),
        "--width",
        "5",
        "--band",
        "iqm",
    ]
    svg, png = tmp_path / "curves.svg", tmp_path / "curves.png"
    for file in (svg, png):
        main([*words, "--figure", str(file)])
    output = capsys.readouterr().out.splitlines()
    caption = "for its caption: interquartile mean over 3 seeds, band: its 95 % bootstrap interval"
    assert output == [f"figure: {svg}", caption, f"figure: {png}", caption]
    texts = re.findall(r"<text[^>]*>(.*?)</text>", svg.read_text())
    assert {"SAC, reuse 1", "SAC-SMR (M = 10)", "Hopper-v4", "Cheetah, run"} <= set(texts)
    assert not {"SAC, reuse 10", "dmc/cheetah-run"} & set(texts)
    assert matplotlib.image.imread(png).shape[1] == 5 * 300
    assert not (Path("report.html")).exists()


def test_tasks_are_files_without_panels(tmp_path: Path, runs: Path) -> None:
    main(["report", str(runs), "--figure", str(tmp_path / "curves.svg")])
    assert sorted(path.name for path in tmp_path.iterdir()) == ["curves-Hopper-v4.svg", "curves-dmc-cheetah-run.svg"]
    assert "cheetah" not in (tmp_path / "curves-Hopper-v4.svg").read_text()


def test_bands(tmp_path: Path) -> None:
    for seed, value in enumerate((0.0, 1.0, 2.0, 30.0)):
        write_run(tmp_path / f"{seed}", [(1000, value), (2000, 2 * value)], seed=seed)
    (curve,) = curves(read_runs(tmp_path))
    deviation, mean, middle = (band(curve, kind) for kind in ("sd", "ci", "iqm"))
    np.testing.assert_allclose(deviation.high - deviation.value, np.std([0, 1, 2, 30], ddof=1) * np.array([1, 2]))
    np.testing.assert_allclose(mean.value, [8.25, 16.5])
    np.testing.assert_allclose(middle.value, [1.5, 3.0])
    assert float(iqm([[0.0], [1.0], [2.0], [30.0]])) == 1.5
    assert (mean.high < deviation.high).all()  # of the mean, not of a seed
    for found in (mean, middle):
        assert (found.low < found.value).all()
        assert (found.value < found.high).all()
        assert (found.high <= [30, 60]).all()
    one = band(curves(read_runs(tmp_path / "0"))[0], "ci")
    assert np.isnan([one.low, one.high]).all()


def test_refusals(tmp_path: Path, runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    figure, labels = str(tmp_path / "x.pdf"), tmp_path / "labels.toml"
    for words in (["--panels"], ["--width", "3"], ["--band", "ci"], ["--labels", "x.toml"]):
        assert f"{words[0]} concerns the figure of --figure FILE" in refused_here(capsys, "report", runs, *words)
    assert "must end in .png, .pdf or .svg" in refused_here(capsys, "report", runs, "--figure", tmp_path / "x.doc")
    assert "inches from 1 to 40" in refused_here(capsys, "report", runs, "--figure", figure, "--width", "400")
    assert "cannot be read" in refused_here(capsys, "report", runs, "--figure", figure, "--labels", labels)
    for text, message in {
        "[curve]": "did you mean curves?",
        '[curves]\n"SAC reuse 1" = "x"': "names the curve 'SAC reuse 1', but there are 'SAC, reuse 1', ",
        '[tasks]\n"Hoper-v4" = "x"': "did you mean Hopper-v4?",
        '[tasks]\n"Hopper-v4" = 3': "[tasks] of",
        "curves = 3": "[curves] of",
    }.items():
        labels.write_text(text)
        assert message in refused_here(capsys, "report", runs, "--figure", figure, "--labels", labels), text
    assert not Path(figure).exists()
