"""The display of runs: speeds, bars, and events from other processes."""

import io
import itertools
import json
import re
import socket
import threading
from types import SimpleNamespace

import pytest
from rich.console import Console

from smrl.training import progress as showing
from smrl.training.progress import Board, SentProgress, Speed, shortened

LONG = "REDQ, reuse 5, HalfCheetahMuJoCoEnv-v0, seed 0"


def rendered(width: int, *titles: str, step: int = 987_654, mean: float = -12_345.6) -> list[str]:
    """The lines of bars in a terminal of this width, where every step takes a millisecond."""
    text, seconds = io.StringIO(), itertools.count(0.0, step / 1000)
    console = Console(
        file=text, width=width, force_terminal=True, color_system=None, soft_wrap=True, legacy_windows=False
    )
    with (
        Board(quiet=False, console=console) as board,
        pytest.MonkeyPatch.context() as patch,
    ):
        patch.setattr(showing, "time", SimpleNamespace(monotonic=lambda: next(seconds)))
        for title in titles:
            progress = board.progress(title, 1_000_000)
            progress.begin(0)
            progress.evaluated(step, mean)
            progress.notify("a message")
    lines = re.split(r"\r|\n|\x1b\[[0-9;?]*[A-Za-z]", text.getvalue())
    return [line for line in lines if "return" in line][-len(titles) :]


def test_speed_covers_the_last_seconds_only() -> None:
    """A run that computes for a minute and then waits for a minute makes no steps per second."""
    speed = Speed(seconds=10)
    fast = [speed.at(100 * second, second) for second in range(60)]
    assert fast[0] == 0
    assert fast[1:] == [100.0] * 59
    slow = [speed.at(5900 + second, 59 + second) for second in range(1, 60)]
    assert slow[4] == pytest.approx(50.5), "half of the last ten seconds were fast"
    assert slow[9:] == [1.0] * 50


def test_a_line_shows_the_speed_since_the_previous_line(monkeypatch: pytest.MonkeyPatch) -> None:
    """Evaluations that take longer than ten seconds are part of it, and do not make it nothing."""
    text, now = io.StringIO(), [0.0]
    monkeypatch.setattr(showing, "time", SimpleNamespace(monotonic=lambda: now[0]))
    with Board(quiet=False, console=Console(file=text, soft_wrap=True)) as board:
        progress = board.progress("run", 3_000)
        progress.begin(0)
        for step, reached, evaluated in ((1_000, 50.0, 100.0), (2_000, 150.0, 300.0)):
            now[0] = reached
            progress.advance(step)
            now[0] = evaluated
            progress.evaluated(step, 1.0)
    assert re.findall(r"[\d.]+ steps/s", text.getvalue()) == ["10 steps/s", "5.0 steps/s"]


def test_lines_in_a_burst_show_the_speed_since_the_line_before(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two evaluations of another process may arrive together, however long the run took between them."""
    text, now = io.StringIO(), [0.0]
    monkeypatch.setattr(showing, "time", SimpleNamespace(monotonic=lambda: now[0]))
    with Board(quiet=False, console=Console(file=text, soft_wrap=True)) as board:
        progress = board.progress("run", 3_000)
        progress.begin(0)
        for step, seconds in ((250, 2.5), (500, 2.5003), (700, 10.5)):
            now[0] = seconds
            progress.evaluated(step, 1.0)
    assert re.findall(r"[\d,.]+ steps/s", text.getvalue()) == ["100 steps/s", "200 steps/s", "25 steps/s"]


def test_speed_includes_a_long_pause() -> None:
    """An evaluation of a minute is not left out, and never divides by nothing."""
    speed = Speed(seconds=10)
    assert speed.at(5, 0.0) == 0
    assert speed.at(5, 0.0) == 0
    assert speed.at(65, 60.0) == 1.0
    speed.restart()
    assert speed.at(1_000_000, 61.0) == 0


@pytest.mark.parametrize("width", [80, 60, 200])
def test_bars_fit_the_terminal(width: int) -> None:
    lines = rendered(width, LONG, LONG.replace("seed 0", "seed 1"))
    assert len(lines) == 2
    assert all(len(line.rstrip()) <= width for line in lines), lines
    if width >= 80:
        assert all(part in lines[0] for part in ("REDQ", "seed 0", "987,654 steps, 1,000/s", "return -12,345.6"))
        assert "seed 1" in lines[1], "the end of a title tells runs apart"
    assert (LONG in lines[0]) == (width == 200)
    assert ("…" in lines[0]) == (width < 200)


def test_short_titles_are_not_shortened() -> None:
    (line,) = rendered(80, "SAC, reuse 10, seed 0", step=12_000, mean=12.0)
    assert "SAC, reuse 10, seed 0" in line
    assert shortened("seed 0", 6) == "seed 0"
    assert shortened("SAC, seed 0", 7) == "SAC…d 0"


def test_plain_lines_without_a_terminal() -> None:
    text = io.StringIO()
    with Board(quiet=False, console=Console(file=text, width=40, soft_wrap=True, highlight=False)) as board:
        progress = board.progress(f"{LONG} [bold]", 1_000)
        progress.begin(0)
        progress.advance(10)
        progress.evaluated(100, -1234.5)
        progress.evaluated(200, -0.01)
    line, other = text.getvalue().splitlines()
    assert "step 200 of 1,000, return 0.0, " in other, "not -0.0"
    assert line.startswith(f"{LONG} [bold]: step 100 of 1,000, return -1,234.5, ")
    assert line.endswith(" steps/s")


def test_quiet_prints_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    with Board(quiet=True) as board:
        board.progress("SAC", 10).evaluated(10, 1.0)
        board.notify("a message")
    assert capsys.readouterr() == ("", "")


def test_events_of_several_threads_are_separate_lines() -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        progress = SentProgress(theirs)

        def talk() -> None:
            for _ in range(50):
                progress.notify("x" * 999)

        threads = [threading.Thread(target=talk) for _ in range(4)]
        reader = ours.makefile()
        for thread in threads:
            thread.start()
        lines = [reader.readline() for _ in range(200)]
        for thread in threads:
            thread.join()
        assert {tuple(json.loads(line)) for line in lines} == {("notify", "x" * 999)}


def test_sending_without_a_listener_does_not_fail() -> None:
    ours, theirs = socket.socketpair()
    ours.close()
    with theirs:
        SentProgress(theirs).advance(1)
        SentProgress(theirs).fail("for nobody")
