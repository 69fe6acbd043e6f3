from collections.abc import Callable
from typing import Any, ClassVar

import gymnasium
import numpy as np
import pytest
from broken_envs import Toy
from gymnasium.spaces import Box, Discrete

from smrl.envs import check as checking


def of_spaces(**given: gymnasium.Space[Any]) -> Callable[[], Toy]:
    return lambda: Toy(5, **given)


FOUND = [
    ("Broken/NeverEnds-v0", "no episode ended within 5000 steps", "TimeLimit"),
    ("Broken/TimeAsTermination-v0", "all 250 episodes terminated at step 20", "truncated"),
    ("Broken/NonDeterministic-v0", "gave a different episode from step 0 on", "self.np_random"),
    ("Broken/Remembers-v0", "gave a different episode from step 1 on after other episodes", "bit for bit"),
    ("Broken/Individual-v0", "gave a different episode from step 1 on in a new instance", "constructor"),
    ("Broken/LiveArray-v0", "the next step changes the returned observation", "return a copy"),
    ("Broken/ConstantReward-v0", "the reward was 0 in every step", "depend on the actions"),
    ("Broken/LargeReward-v0", "rewards lie in [-10000", "TransformReward"),
    ("Broken/LargeObservation-v0", "observation 1 reached ±", "normalise"),
    ("Broken/LargeObservation-v0", "outside its declared bounds [-10, 10]", "correct observation_space"),
    ("Broken/Slow-v0", "steps per second", "seconds"),
    (of_spaces(observations=Box(-10, 10, (2,))), "ndarray of float64, declared as ndarray of float32", "wrappers"),
    (of_spaces(actions=Box(-1e9, 1e9, (1,))), "actions reach 1e+09", "Declare bounds"),
]


@pytest.mark.parametrize(("env", "what", "meaning"), FOUND)
def test_check_warns(env: Any, what: str, meaning: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if "Slow" in str(env):
        monkeypatch.setattr(checking, "SECONDS", 0.3)
        monkeypatch.setattr(checking, "REPEATED_SECONDS", 0.1)
    findings = checking.check(env)
    levels = [finding.level for finding in findings]
    assert levels == sorted(levels, key=["error", "warning", "note"].index)
    assert any(f.level == "warning" and what in f.what and meaning in f.meaning for f in findings), findings


def test_check_detects_shared_environment() -> None:
    toy = Toy()
    assert "two calls returned the same Toy" in checking.check(lambda: toy)[0].what


def test_check_explains_a_missing_seed() -> None:
    assert "super().reset(seed=seed)" in checking.check("Broken/NoSeed-v0")[0].meaning


UNIT = "and dtype float32, 1 continuous action in [-1, 1]"
GOOD: list[tuple[Any, list[str]]] = [
    (
        "Pendulum-v1",
        [
            "observations of shape (3,) and dtype float32, 1 continuous action in [-2, 2]",
            "25 episodes of 200 steps",
            "per second",
        ],
    ),
    ("Hopper-v4", ["shape (11,) and dtype float32, 3 continuous actions in [-1, 1]", "terminated", "per second"]),
    ("InvertedPendulum-v4", ["shape (4,) and dtype float32", "terminated", "the reward was 1", "per second"]),
    (
        "Broken/Toy-v0",
        [f"shape (2,) {UNIT}", "100 episodes of 50 steps, 0 terminated", "per second"],
    ),
    ("CartPole-v1", ["shape (4,) and dtype float32, 2 discrete actions", "terminated", "reward was 1", "per second"]),
    (
        "Broken/Entries-v0",
        [
            f"shape (4,) {UNIT}",
            "the Dict observations of Broken/Entries-v0 are flattened",
            "100 episodes",
            "per second",
        ],
    ),
]


@pytest.mark.parametrize(("name", "facts"), GOOD)
def test_check_has_only_notes_on_good_environments(
    name: str, facts: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checking, "SECONDS", 60.0)  # enough for all steps on a busy machine
    findings = checking.check(name)
    assert [finding.level for finding in findings] == ["note"] * len(facts)
    assert all(fact in finding.what for fact, finding in zip(facts, findings, strict=True))


def test_check_handles_images() -> None:
    first, *rest = checking.check("Broken/Image-v0")
    assert (first.level, first.what) == ("warning", "the next step changes the returned observation")
    assert "observations of shape (6, 8, 3) and dtype uint8, 1 continuous action in [-1, 1]" in rest[0].what
    assert [finding.level for finding in rest] == ["note"] * 3


def test_check_doubts_channels_that_come_first() -> None:
    findings = checking.check(of_spaces(observations=Box(0, 255, (3, 8, 8), np.uint8)))
    assert ["as if the channels came first" in finding.what for finding in findings if finding.level == "warning"] == [
        True
    ]


def test_check_refuses_running_statistics_and_an_image_among_others() -> None:
    (finding,) = checking.check(lambda: gymnasium.wrappers.NormalizeObservation(gymnasium.make("Pendulum-v1")))
    assert (finding.level, finding.meaning) == ("error", "Training is not possible: correct this first.")
    assert "has a NormalizeObservation, whose running statistics" in finding.what
    entries = gymnasium.spaces.Dict(eye=Box(0, 255, (8, 8, 3), np.uint8), joints=Box(-1, 1, (2,)))
    (finding,) = checking.check(of_spaces(observations=entries))
    assert finding.level == "error"
    assert "observes a Dict with the image eye (8, 8, 3)" in finding.what


class Counted(Toy):
    """Record the actions of all instances."""

    given: ClassVar[list[Any]] = []

    def __init__(self) -> None:
        super().__init__(actions=Discrete(3, start=4))

    def step(self, action: Any) -> Any:
        self.given.append(action)
        return super().step(action)


def test_check_tries_every_discrete_action() -> None:
    checking.check(Counted)
    assert set(Counted.given) == {4, 5, 6}
