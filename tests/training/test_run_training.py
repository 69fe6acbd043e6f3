"""The warning about the cost of reuse on Atari."""

import pytest

from smrl.studies.presets import resolve
from smrl.training.run_training import cost_of_reuse


@pytest.mark.parametrize(
    ("env", "reuse", "factor"),
    [
        ("PongNoFrameskip-v4", 10, "10 times the updates"),
        ("ALE/Breakout-v5", "4:1000,1", "4 times the updates"),
        ("PongNoFrameskip-v4", 1, None),
        ("CartPole-v1", 10, None),
        ("smrl/Catch-v0", 10, None),
    ],
)
def test_cost_of_reuse_warns_on_atari_only(env: str, reuse: int | str, factor: str | None) -> None:
    message = cost_of_reuse(resolve("dqn", env, reuse=reuse))
    if factor is None:
        assert message is None
    else:
        assert message is not None
        assert factor in message
        assert "8.7 times" in message
