"""Checkpoints that are written in the background hold the moment at which they were begun."""

import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from written_runs import FACTS

from smrl.errors import SmrlError
from smrl.memory import replay as memory
from smrl.memory.replay import Replay, Rows, Snapshot
from smrl.runs import checkpoint
from smrl.runs.checkpoint import Saved, Writer
from smrl.types import ArraySpec, Continuous, Spec

SPEC = Spec(ArraySpec((2,)), Continuous(1))


def extend(replay: Replay, count: int) -> None:
    for row in range(replay.added, replay.added + count):
        replay.add(np.full(2, row), np.zeros(1), row, np.full(2, row + 0.5), row % 3 == 2, False)


class Racing(Replay):
    """While its rows are copied, others are added: before the copy, during it and after it."""

    snapshot: Snapshot | None = None
    pace: tuple[int, ...] = ()

    def step(self, count: int) -> None:
        for _ in range(count):
            assert self.snapshot
            self.snapshot.keep(self.envs)
            extend(self, self.envs)

    def rows(self, start: int, stop: int) -> Rows:
        if self.snapshot is None or not self.pace or threading.current_thread() is threading.main_thread():
            return super().rows(start, stop)
        (before, during, after), self.pace = self.pace, ()
        self.step(before)
        copied = super().rows(start, stop)
        first = int(copied["start"])
        self.step(during)
        overwritten = max(0, min(self.oldest, stop) - first)
        for name in ("obs", "reward", "last"):
            copied[name][:overwritten] = 1  # torn
        if during and during % 2 == 0:
            self.step(after)
            raise KeyError
        self.step(after)
        return copied


def in_a_thread(function: Any) -> Any:
    """Return what a function returns in another thread."""
    answer: list[Any] = []
    thread = threading.Thread(target=lambda: answer.append(function()))
    thread.start()
    thread.join()
    return answer[0]


def same(left: Rows, right: Rows) -> bool:
    return list(left) == list(right) and all(
        left[name].dtype == right[name].dtype and np.array_equal(left[name], right[name]) for name in left
    )


@pytest.mark.parametrize("chunk", [1, 4, 1000])
@given(
    capacity=st.integers(3, 25),
    envs=st.integers(1, 3),
    filled=st.integers(1, 30),
    bounds=st.tuples(st.integers(0, 90), st.integers(0, 90)),
    earlier=st.integers(0, 30),
    pace=st.tuples(*[st.integers(0, 12)] * 3),
)
@hypothesis_settings(deadline=None, max_examples=150)
def test_snapshot_is_unchanged_by_new_rows(
    chunk: int, capacity: int, envs: int, filled: int, bounds: tuple[int, int], earlier: int, pace: tuple[int, ...]
) -> None:
    replay = Racing(capacity, SPEC, gamma=0.9, envs=envs)
    extend(replay, filled * envs)
    start, stop = sorted(min(bound, replay.settled) for bound in bounds)
    if stop <= max(start, replay.oldest):
        return
    expected = replay.rows(start, stop), replay.rows(replay.settled, replay.added)
    snapshot = replay.snapshot = Snapshot(replay)
    replay.step(earlier)
    replay.pace = pace
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(memory, "CHUNK", chunk)
        found = in_a_thread(lambda: snapshot.rows(start, stop))
    assert same(found, expected[0])
    assert same(snapshot.rows(snapshot.settled, snapshot.added), expected[1])


def test_checkpoint_holds_the_moment_it_was_begun(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The writer is held until the entire ring has been overwritten."""
    replay, undisturbed = Replay(40, SPEC, gamma=0.9), Replay(40, SPEC, gamma=0.9)
    extend(replay, 57)
    extend(undisturbed, 57)
    writer, held, order = Writer(tmp_path, replay), threading.Event(), list[str]()

    def before() -> None:
        held.wait()
        order.append("tables")

    save = checkpoint.save

    def noted(*args: Any) -> None:
        order.append("checkpoint")
        save(*args)

    monkeypatch.setattr(checkpoint, "save", noted)
    writer.begin(Saved(57, {"x": np.arange(3)}, FACTS), before)
    assert writer.is_busy()
    for _ in range(100):
        writer.keep(1)
        extend(replay, 1)
    held.set()
    writer.close()
    assert not writer.is_busy()
    assert order == ["tables", "checkpoint"]
    loaded = Replay(40, SPEC, gamma=0.9)
    assert checkpoint.load(tmp_path, pytest.fail, loaded) is not None
    assert same(loaded.rows(0, 57), undisturbed.rows(0, 57))

    writer.save(Saved(157, {}, FACTS), lambda: None)
    loaded = Replay(40, SPEC, gamma=0.9)
    assert checkpoint.load(tmp_path, pytest.fail, loaded) is not None
    assert same(loaded.rows(0, 157), replay.rows(0, 157))


def test_rows_added_while_a_thread_writes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The writer is not held here: the result must not depend on the order of the threads."""
    monkeypatch.setattr(memory, "CHUNK", 7)
    monkeypatch.setattr(checkpoint, "MAX_SHARDS", 3)
    replay = Replay(300, SPEC, gamma=0.9)
    writer = Writer(tmp_path, replay)
    for step in range(100, 1500, 100):
        extend(replay, step - replay.added)
        expected = replay.rows(0, replay.added)
        writer.begin(Saved(step, {}, FACTS), lambda: None)
        while replay.added < step + 90:
            writer.keep(1)
            extend(replay, 1)
        writer.close()
        loaded = Replay(300, SPEC, gamma=0.9)
        saved = checkpoint.load(tmp_path, pytest.fail, loaded)
        assert saved is not None
        assert saved.step == step
        assert same(loaded.rows(0, step), expected)


def test_empty_memory(tmp_path: Path) -> None:
    writer = Writer(tmp_path, Replay(40, SPEC, gamma=0.9))
    writer.begin(Saved(0, {}, FACTS), lambda: None)
    writer.save(Saved(1, {}, FACTS), lambda: None)
    assert [path.name for path in sorted(tmp_path.iterdir())] == ["000000000000", "000000000001", "replay"]


@pytest.mark.parametrize("following", ["save", "begin"])
def test_error_is_raised_at_the_next_save(tmp_path: Path, following: str) -> None:
    (tmp_path / "file").write_text("")
    writer = Writer(tmp_path / "file" / "checkpoint", Replay(40, SPEC, gamma=0.9))
    writer.begin(Saved(0, {}, FACTS), lambda: None)
    with pytest.raises(SmrlError, match=r"cannot write .*continues from the last checkpoint"):
        getattr(writer, following)(Saved(1, {}, FACTS), lambda: None)
    writer.close()
