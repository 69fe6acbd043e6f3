"""Sizes that exceed the memory of the machine are refused."""

from pathlib import Path
from typing import Any

import pytest
from specs import vectors

import smrl
from smrl.errors import SmrlError
from smrl.settings import make_settings
from smrl.training import memory_budget
from smrl.training.memory_budget import refuse_too_large


@pytest.mark.parametrize("name", ["capacity", "batch_size"])
def test_a_size_beyond_memory_is_refused_before_anything_is_written(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(memory_budget, "_physical_memory", lambda: 10**9)
    size: dict[str, Any] = {name: 2_000_000_000}
    with pytest.raises(SmrlError, match=rf"{name} 2,000,000,000 would take [\d,.]+ GB, but this machine has 1.0 GB"):
        smrl.train("ddpg", "Pendulum-v1", **size, runs=tmp_path, quiet=True)
    assert not list(tmp_path.rglob("config.json"))


def test_the_estimate_is_the_size_of_the_arrays() -> None:
    settings = make_settings("sac", "Pendulum-v1", capacity=1000, batch_size=10)
    refuse_too_large(settings, vectors(17, 6), 1, memory=1000 * (17 + 6 + 2) * 4)
    with pytest.raises(SmrlError, match="lower --capacity"):
        refuse_too_large(settings, vectors(17, 6), 1, memory=1000 * (17 + 6 + 2) * 4 - 1)
    with pytest.raises(SmrlError, match="lower --batch-size"):
        refuse_too_large(make_settings("sac", "x", capacity=1, batch_size=10), vectors(17, 6), 20, memory=10_000)


def test_networks_beyond_memory_are_refused_before_they_are_made(tmp_path: Path) -> None:
    with pytest.raises(SmrlError, match=r"the networks would take [\d,.]+ TB, more than half of this machine's"):
        smrl.train("sac", "Pendulum-v1", critic_hidden=(65_536,) * 64, runs=tmp_path, quiet=True)
    assert not list(tmp_path.rglob("config.json"))
