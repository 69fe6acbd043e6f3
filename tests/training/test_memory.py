"""The memory of a run does not grow with the steps between two evaluations."""

import tracemalloc
from collections.abc import Callable
from functools import partial
from typing import Any

import gymnasium
import numpy as np
import pytest
from broken_envs import NeverEnds, TimeAsTermination

from smrl.envs.make import make
from smrl.memory.replay import Replay
from smrl.settings import make_settings
from smrl.training.agent import METRICS_EVERY, Agent
from smrl.training.clock import Moment
from smrl.training.collector import Collector

STEPS = 20_000


def growth(work: Callable[[range], None]) -> int:
    """Bytes that the second half of the steps leaves behind."""
    work(range(1, STEPS // 2 + 1))
    tracemalloc.start()
    work(range(STEPS // 2 + 1, STEPS + 1))
    held, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return held


class Fake(Agent):
    """Learns nothing; its losses are the steps, and every third of another kind is not computed."""

    def __init__(self) -> None:
        super().__init__(make_settings("ddpg", "Toy"), make(NeverEnds).spec)
        self.state: Any = None
        self._learn: Any = self._pretend

    def _pretend(self, learned: Any, batches: Any, step: int, env_step: int) -> tuple[None, dict[str, Any]]:
        rare = float("nan") if step % (3 * METRICS_EVERY) else step
        return None, {"loss": np.float32(step), "rare": np.float32(rare), "never": np.float32("nan")}


class Nothing:
    def sample(self, *_: Any) -> None:
        return None


def test_metrics_are_summed_and_not_kept() -> None:
    learner, replay = Fake(), Nothing()

    def learn(steps: range) -> None:
        for step in steps:
            learner.learn(replay, Moment(step, step, step))  # type: ignore[arg-type]

    assert growth(learn) < 50_000
    kept = np.arange(METRICS_EVERY, STEPS + 1, METRICS_EVERY)
    means = learner.take_metrics()
    assert list(means) == ["loss", "never", "rare"]
    assert means["loss"] == pytest.approx(kept.mean())
    assert means["rare"] == pytest.approx(kept[kept % 30 == 0].mean())
    assert np.isnan(means["never"])
    assert learner.take_metrics() == {}
    learn(range(STEPS + 1, STEPS + 11))
    assert learner.take_metrics()["loss"] == STEPS + 10


def collector(env: Any) -> Collector:
    settings = make_settings("ddpg", "Toy", warmup=10**6, steps=10**7)
    envs = [make(partial(env))]
    found = Collector(settings, envs, Replay(100, envs[0].spec, gamma=0.99))
    found.start()
    return found


@pytest.mark.parametrize("env", [TimeAsTermination, NeverEnds])
def test_long_episodes_take_four_bytes_per_action(env: Any) -> None:
    """Returns are summed; the actions of an episode, which are needed to replay it, take four bytes each."""
    subject = collector(env)

    def collect(steps: range) -> None:
        for step in steps:
            subject.collect(lambda obs, step: obs, step)

    assert growth(collect) < (200_000 if env is NeverEnds else 20_000)
    kept = subject.arrays()["episode0.actions"]
    assert kept.shape == ((STEPS if env is NeverEnds else 20), 1)


def test_means_of_finished_episodes() -> None:
    subject, totals = collector(TimeAsTermination), []
    for step in range(50):
        subject.collect(lambda obs, step: obs, step)
        if subject.episodes[0].over:
            totals.append(subject.episodes[0].total)
    assert len(totals) == 2
    assert subject.means.take() == {"episode_return": pytest.approx(np.mean(totals)), "episode_length": 20}
    assert subject.means.take() == {"episode_return": None, "episode_length": None}


@pytest.mark.parametrize("env", [NeverEnds, partial(gymnasium.make, "CartPole-v1")])
def test_actions_are_kept_as_copies_and_restored(env: Any) -> None:
    subject, copies = collector(env), []
    spec = subject.spec.action.array
    for step in range(8):
        copies.append(subject.arrays()["episode0.actions"])
        subject.collect(lambda obs, step: obs, step)
    again = collector(env)
    again.episodes = []
    again.restore(subject.arrays(), subject.facts(), pytest.fail)
    taken = subject.replay.rows(0, 8)["action"]
    for step, copy in enumerate(copies):
        assert copy.dtype == spec.dtype
        assert copy.shape == (step, *spec.shape)
        np.testing.assert_array_equal(copy, taken[:step])
    for one in (subject, again):
        one.collect(lambda obs, step: obs, 8)
    np.testing.assert_array_equal(again.arrays()["episode0.actions"], subject.replay.rows(0, 9)["action"])
