"""Action repeat: every action is done for several frames, as if the agent were slower."""

from typing import Any, SupportsFloat

import gymnasium

from smrl.errors import require


class ActionRepeat(gymnasium.Wrapper[Any, Any, Any, Any], gymnasium.utils.RecordConstructorArgs):
    """Do every action ``repeat`` times and sum the rewards; an episode's end cuts the repetition short.

    The frames that a step took are in its info as ``frames`` and, until the next one, in the attribute of that name.
    """

    def __init__(self, env: gymnasium.Env[Any, Any], repeat: int) -> None:
        require(repeat >= 1, f"an action is done at least once, not {repeat} times")
        gymnasium.utils.RecordConstructorArgs.__init__(self, repeat=repeat)
        super().__init__(env)
        self.repeat = repeat
        self.frames = 0
        if "render_fps" in env.metadata:  # a film shows one picture per step, and should last as long as the episode
            self.metadata = {**env.metadata, "render_fps": env.metadata["render_fps"] / repeat}

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Start an episode."""
        self.frames = 0
        return self.env.reset(seed=seed, options=options)

    def step(self, action: Any) -> tuple[Any, SupportsFloat, bool, bool, dict[str, Any]]:
        """Do the action until it has been repeated enough or the episode is over."""
        step, total = self.env.step, 0.0
        for frames in range(1, self.repeat + 1):  # noqa: B007
            obs, reward, terminated, truncated, info = step(action)
            total += float(reward)
            if terminated or truncated:
                break
        self.frames = frames
        return obs, total, terminated, truncated, {**info, "frames": frames}
