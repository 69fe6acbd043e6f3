"""Presets in TOML files, which may be somebody else's."""

from pathlib import Path

import pytest

from smrl.cli.main import main
from smrl.errors import SmrlError
from smrl.presets import find_preset, resolve
from smrl.studies.sweep import sweep

GOOD = """
title = "SAC for the arm"
seeds = 4

[[rows]]
algorithm = "sac"
settings = { tau = 0.02, actor_hidden = [32, 32], gradient_clip = "none", reuse = "5:1000,1" }

[[rows]]
tasks = "Pendulum-v*"
settings = { batch_size = 64 }
"""


@pytest.fixture
def file(in_tmp_path: Path) -> str:
    Path("arm.toml").write_text(GOOD)
    return "arm.toml"


def test_settings_of_a_file(file: str) -> None:
    settings = resolve("sac", "Pendulum-v1", file, gamma=0.9)
    assert (settings.hyper.tau, settings.hyper.actor_hidden, settings.hyper.gradient_clip) == (0.02, (32, 32), None)
    assert (settings.reuse, settings.batch_size, settings.gamma) == ("5:1000,1", 64, 0.9)
    assert resolve("sac", "Hopper-v4", file).batch_size == 256
    assert resolve("td3", "Pendulum-v1", file).hyper.tau == 0.005
    assert find_preset(file).title == "SAC for the arm"


def test_compare_and_train_take_a_file(file: str, capsys: pytest.CaptureFixture[str]) -> None:
    found = sweep("sac", "Hopper-v4", preset=["paper", file], reuse=1)
    assert [(one.hyper.tau, one.seed) for one in found] == [(tau, seed) for tau in (0.005, 0.02) for seed in range(4)]
    with pytest.raises(SystemExit) as stop:
        main(["train", "sac", "Pendulum-v1", "--preset", file, "--help"])
    assert stop.value.code == 0
    assert "(default: 32,32)" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("rows = 3", r"begin each row .* with \[\[rows\]\]"),
        ("title = 3\n[[rows]]", "the title of a preset is a text, not 3"),
        ("seeds = 0\n[[rows]]", "from 1 to 1,000, not 0"),
        ("titel = 'x'\n[[rows]]", "not 'titel'; did you mean title?"),
        ("[[rows]]\nalgorithms = 'sac'", "not 'algorithms'; did you mean algorithm?"),
        ("[[rows]]\nalgorithm = 'os:system'", "there is no algorithm 'os:system'"),
        ("[[rows]]\nalgorithm = 'sac'\nsettings = { taau = 1 }", "sac has no setting 'taau'; did you mean tau?"),
        ("[[rows]]\nsettings = { tau = 0.01 }", r"\* has no setting 'tau'"),
        ("[[rows]]\nsettings = { env = 'os:x' }", "has no setting 'env'"),
        ("[[rows]]\nsettings = { gamma = 2 }", r"gamma must be a number in \[0, 1\], not 2"),
        ("[[rows]]\nsettings = { reuse = 'os:system' }", "reuse in a file is a number, a schedule"),
        ("[[rows]]\nsettings = 3", "settings of a preset's row are a dict"),
        ("[[rows", "cannot be read as TOML"),
        (None, "cannot be read .No such file"),
    ],
)
def test_refusals(text: str | None, message: str, in_tmp_path: Path) -> None:
    if text is not None:
        Path("bad.toml").write_text(text)
    with pytest.raises(SmrlError, match=message) as error:
        resolve("sac", "Pendulum-v1", "bad.toml")
    assert str(error.value).startswith("bad.toml")
