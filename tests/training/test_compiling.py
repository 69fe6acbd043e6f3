"""The updates are compiled in another thread while a run warms up."""

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jax
import pytest

import smrl

SHORT: dict[str, Any] = {
    "steps": 12,
    "warmup": 10,
    "eval_every": 12,
    "eval_episodes": 1,
    "batch_size": 8,
    "quiet": True,
}
SMALL: dict[str, Any] = {"actor_hidden": (8,), "critic_hidden": (8,)}


@pytest.fixture(autouse=True)
def _log() -> Iterator[None]:
    jax.config.update("jax_log_compiles", True)
    yield
    jax.config.update("jax_log_compiles", False)


@pytest.mark.parametrize(
    ("algorithm", "env", "settings"),
    [
        ("ddpg", "Pendulum-v1", SMALL | {"fresh_batches": 2, "n_step": 2, "warmup": 0}),
        ("dqn", "CartPole-v1", {"hidden": (8,)}),
    ],
)
def test_updates_are_compiled_once(
    algorithm: str, env: str, settings: dict[str, Any], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    smrl.train(algorithm, env, **SHORT | settings, runs=tmp_path)
    compiled = [record for record in caplog.records if "Finished XLA compilation of jit(learn)" in record.message]
    assert [record.threadName for record in compiled] == ["compile"]


def test_a_failure_to_compile_is_raised_by_the_first_update(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: Any) -> Any:
        raise ArithmeticError(threading.current_thread().name)

    monkeypatch.setattr("smrl.smr.loop.repeat", broken)
    with pytest.raises(ArithmeticError, match="MainThread"):
        smrl.train("ddpg", "Pendulum-v1", **SHORT | SMALL, runs=tmp_path)
