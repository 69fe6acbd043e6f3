"""The harness of `make bench`."""

import importlib
import json
from collections.abc import Callable
from pathlib import Path

import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from benchmarks import __main__ as command
from benchmarks import critics, harness, peers, picture, results
from benchmarks.harness import PATIENCE, Record, interleaved, median_interval, median_of, ratio
from benchmarks.results import Results
from smrl import machine


@pytest.mark.parametrize(
    ("count", "rank"),
    [
        (1, 0),
        (2, 0),
        (5, 0),
        (6, 0),
        (8, 0),
        (9, 1),
        (11, 1),
        (12, 2),
        (20, 5),
        (5_000, 2_430),
    ],  # tables of the sign test
)
def test_median_interval(count: int, rank: int) -> None:
    values = [float(value) for value in reversed(range(count))]
    assert median_interval(values) == (rank, count - 1 - rank)


class Clock:
    """A clock that advances only by calls, instead of the harness's."""

    def __init__(self) -> None:
        self.now, self.order, self.rests = 0.0, list[str](), 0

    def perf_counter(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        """A rest, which takes no time here."""
        self.rests += 1

    def call(self, name: str, *seconds: float) -> Callable[[], None]:
        """A call that takes these seconds, one after another and the last of them ever after."""
        left = list(seconds)

        def act() -> None:
            self.order.append(name)
            self.now += left.pop(0) if len(left) > 1 else left[0]

        return act


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    monkeypatch.setattr(harness, "time", made)
    return made


def test_calls_take_turns_in_order(clock: Clock) -> None:
    times = interleaved({"a": clock.call("a", 9.0, 1.0), "b": clock.call("b", 9.0, 2.0)}, limit=100)
    assert times == {"a": [1.0] * 6, "b": [2.0] * 6}  # the first turn is not counted
    assert clock.order == ["a", "b"] * 7
    assert clock.rests == len(clock.order)  # before every turn


def test_turns_continue_until_the_interval_is_narrow(clock: Clock) -> None:
    unsteady = (1.0, *(1.0, 1.2) * 3, 1.0)
    times = interleaved({"a": clock.call("a", 1.0), "b": clock.call("b", *unsteady)}, limit=1000)
    low, high = median_interval(times["b"])
    assert len(times["b"]) > 6
    assert high - low <= 0.05
    low, high = median_interval(times["b"][:-1])
    assert high - low > 0.05


def test_turns_end_at_the_limit(clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(PATIENCE, "0.5")
    times = interleaved({"a": clock.call("a", 1.0), "b": clock.call("b", 1.0)}, limit=9, width=-1)
    assert times == {"a": [1.0] * 3, "b": [1.0] * 3}  # the third turn passes 4.5 seconds


def test_a_short_call_is_repeated(clock: Clock) -> None:
    times = interleaved({"a": clock.call("a", 0.25), "b": clock.call("b", 1.0)}, limit=100, turn=1.0)
    assert times["a"] == [0.25] * 6
    assert clock.order.count("a") == 2 + 4 * 6


@pytest.mark.parametrize(
    ("record", "met"),
    [
        (Record("a/b", 2.0, "×"), None),
        (Record("a/b", 2.0, "×", target=2.0), True),
        (Record("a/b", 1.9, "×", target=2.0), False),
        (Record("a/b", 2.1, "s", target=2.0, at_most=True), False),
        (Record("a/b", 1.9, "s", target=2.0, at_most=True), True),
    ],
)
def test_targets_are_met_or_missed(record: Record, met: bool | None) -> None:
    assert record.met is met
    assert record.to_json()["met"] is met
    assert Record.from_json(record.to_json()) == record
    if met is not None:
        assert (picture.share(record) >= 1) is met


def test_ratios_are_taken_turn_by_turn() -> None:
    record = ratio([2.0, 6.0, 40.0], [1.0, 2.0, 10.0], "a/b", 2.5)
    assert (record.value, record.low, record.high, record.met) == (3.0, 2.0, 4.0, True)


def test_a_section_replaces_only_its_own_records(tmp_path: Path) -> None:
    old = [Record("peak/1 core", 90.0, "GFLOP/s"), Record("updates/sac", 9.0, "ms"), Record("updates/td3", 9.0, "ms")]
    results.write(tmp_path, Results().with_section("peak", old[:1]).with_section("updates", old[1:]))
    new = [Record("updates/sac", 5.0, "ms", 4.0, 6.0, target=6.0, at_most=True)]
    assert results.read(tmp_path).with_section("updates", new).records == (old[0], *new)


def test_every_section_keeps_the_machine_that_it_was_measured_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(machine, "processor", lambda: "an old CPU")
    results.write(tmp_path, Results().with_section("peak", [Record("peak/1 core", 90.0, "GFLOP/s")]))
    monkeypatch.setattr(machine, "processor", lambda: "a new CPU")
    results.write(tmp_path, results.read(tmp_path).with_section("updates", [Record("updates/sac", 9.0, "ms")]))
    cpus = {section: found["cpu"] for section, found in results.read(tmp_path).conditions.items()}
    assert cpus == {"peak": "an old CPU", "updates": "a new CPU"}
    page = (tmp_path / "results.md").read_text()
    assert "CPU of peak: an old CPU" in page
    assert "CPU of updates: a new CPU" in page


def test_results_are_written(tmp_path: Path) -> None:
    records = [
        median_of("updates/sac: SBX", [1.1, 1.3, 1.2], "×", 1.35),
        Record("startup/smrl --help", 0.3, "s", target=0.5, at_most=True),
    ]
    results.write(tmp_path / "new", Results().with_section("updates", records[:1]).with_section("startup", records[1:]))
    picture.draw(tmp_path / "results.png", records)
    document = json.loads((tmp_path / "new" / "results.json").read_text())
    assert document["conditions"]["updates"]["versions"]["jax"]
    assert {"name", "value", "unit", "target", "met"} <= document["results"][0].keys()
    page = (tmp_path / "new" / "results.md").read_text()
    assert "CPU of updates, startup: " in page
    assert "1 of 2 met" in page
    assert "| updates/sac: SBX | 1.2 × | 1.1 … 1.3 | ≥ 1.35 | **no** |" in page
    assert "| startup/smrl --help | 0.3 s |  | ≤ 0.5 | yes |" in page
    assert (tmp_path / "results.png").stat().st_size > 10_000


def test_a_missing_peer_is_reported(capsys: pytest.CaptureFixture[str]) -> None:
    with peers.peers({"SBX": ("no_such_module", "training")}) as found:
        assert found == {}
    assert "no_such_module is not installed" in capsys.readouterr().err


def test_a_peer_is_timed_in_its_own_process() -> None:
    with peers.peers({"idle": ("idle", "rest", 0.01)}) as found:
        assert found["idle"].seconds(3) >= 0.03
        assert found["idle"].process.poll() is None
    assert found["idle"].process.poll() == 0


def test_every_module_that_measures_is_a_section() -> None:
    modules = {path.stem for path in command.HOME.glob("*.py") if not path.stem.startswith("_")}
    measuring = {name for name in modules if hasattr(importlib.import_module(f"benchmarks.{name}"), "measure")}
    assert measuring == set(command.SECTIONS)


def test_a_section_is_measured_in_a_worker(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(PATIENCE, "0.01")
    records = command.measured("peak", quick=True) or []
    counts = [1, 2][: machine.cores()]
    assert [record.name for record in records] == [f"peak/{count} core{'s' * (count > 1)}" for count in counts]
    assert all(record.value > 1 for record in records), "GFLOP/s of any machine"


def test_picture_cuts_no_label_and_no_bar_squashes_the_rest(monkeypatch: pytest.MonkeyPatch) -> None:
    """The committed results, drawn again: all names lie beside the axes and all texts within the picture."""
    drawn: list[Figure] = []
    monkeypatch.setattr(Figure, "savefig", lambda figure, *args, **keywords: drawn.append(figure))
    records = results.read(command.HOME).records
    picture.draw(Path("results.png"), records)
    (figure,) = drawn
    (axes,) = figure.axes
    renderer = FigureCanvasAgg(figure).get_renderer()  # type: ignore[no-untyped-call]
    edge, names = axes.get_window_extent(renderer).x0, {record.name.partition("/")[2] for record in records}
    for text in figure.texts:
        box = text.get_window_extent(renderer)
        assert box.x0 >= 0, text
        assert box.x1 <= figure.bbox.x1, text
        assert text.get_text() not in names or box.x1 < edge, text
    ratios = [picture.share(record) for record in records if record.target is not None]
    assert max(ratios) > 2 * axes.get_xlim()[1]  # smrl --help is far beyond, where an arrow points to it
    low, high = sorted(ratios)[1], sorted(ratios)[-2]
    places = axes.transAxes.inverted().transform(axes.transData.transform([(low, 0), (high, 0)]))[:, 0]
    assert places[1] - places[0] > 0.5  # the others use the width of the axes


@pytest.mark.slow
def test_nothing_is_compiled_while_a_peer_with_a_policy_delay_is_timed(caplog: pytest.LogCaptureFixture) -> None:
    pytest.importorskip("sbx", reason="SBX is not installed: smrl[peers] has it")
    jax = pytest.importorskip("jax")
    libraries = importlib.import_module("benchmarks.peers.libraries")
    spec = critics.CRITICS["SAC"].spec
    call = libraries.training("sbx", "crossq", spec, {}, steps=1, batch_size=8, reuse=10)
    with jax.log_compiles(), caplog.at_level("WARNING", logger="jax"):
        for _ in range(3):
            call()
    assert not [record.message for record in caplog.records if "Compiling" in record.message]
