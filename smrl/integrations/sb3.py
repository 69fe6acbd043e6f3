"""Sample multiple reuse for the off-policy algorithms of Stable-Baselines3, sb3-contrib and SBX.

Their ``train`` draws a batch from ``self.replay_buffer`` for every gradient step. While a class with reuse trains, a
buffer that serves one batch stands there instead, and ``train`` makes M gradient steps with it.
"""

from typing import Any, TypeVar, cast

from smrl.errors import require, short_repr
from smrl.plugins import import_module
from smrl.smr.rules import Schedule, rule_of

INSTALL = 'pip install "smrl[sb3]"'
NEVER = 2**30  # a policy delay that is never reached; always the same number, because SBX compiles for each
Algorithm = TypeVar("Algorithm")


def with_reuse(base: type[Algorithm], times: int | str = 10) -> type[Algorithm]:
    """Return an off-policy class that makes M gradient steps on every batch instead of one.

    ``times`` is M, or a schedule such as ``"10:300000,1"``: ten until environment step 300,000, then one. The class is
    used like ``base``, with the same arguments, files and logs. ``gradient_steps`` is the number of batches.

    >>> SAC_SMR = with_reuse(SAC, times=10)                                          # doctest: +SKIP
    >>> SAC_SMR("MlpPolicy", "Pendulum-v1").learn(5_000).save("pendulum")            # doctest: +SKIP
    >>> model = SAC_SMR.load("pendulum")                                             # doctest: +SKIP
    """
    off_policy = import_module("stable_baselines3.common.off_policy_algorithm", INSTALL).OffPolicyAlgorithm
    require(
        isinstance(base, type) and issubclass(base, off_policy),
        f"reuse is for off-policy classes such as SAC, TD3, DQN and TQC, not for {short_repr(base)}.",
    )
    require(
        not hasattr(base, "reuse"), f"{base.__name__} has reuse already; put it around the class that it was made of."
    )
    parent: Any = base
    rule = cast(Schedule, rule_of(times))
    require(
        isinstance(rule, Schedule),
        f"times must be a number or a schedule such as '10:300000,1', not {short_repr(times)}.",
    )

    class WithReuse(parent):
        reuse: Schedule = rule
        replay_buffer: Any
        _n_updates: int
        _repeated_updates = 0  # gradient steps on batches that were used before; saved once it is an instance's

        def _setup_model(self) -> None:
            super()._setup_model()
            # DQN copies its target by environment steps; others count the gradient steps of a call, which are reuses.
            interval = 1 if hasattr(self.action_space, "n") else getattr(self, "target_update_interval", 1)
            require(
                interval == 1 or max(self.reuse.values) == 1,
                f"target_update_interval must be 1 with reuse, not {short_repr(interval)}: all updates on a batch are "
                "the same.",
            )

        def train(self, gradient_steps: int, batch_size: int) -> None:
            times = self.reuse.times((), self.num_timesteps)
            if times == 1:
                self._train_once(gradient_steps, batch_size, self._n_updates - self._repeated_updates)
                return
            for _ in range(gradient_steps):
                self._train_on_one_batch(times, batch_size)

        def _train_on_one_batch(self, times: int, batch_size: int) -> None:
            """Make M gradient steps on one batch. The policy delay counts batches, as in the paper's code."""
            buffer, delay = self.replay_buffer, getattr(self, "policy_delay", None)
            self.replay_buffer = _OneBatch(buffer.sample(batch_size, env=self._vec_normalize_env), batch_size)
            if delay is not None:
                batches = self._n_updates - self._repeated_updates + 1
                self.policy_delay = NEVER if batches % delay else 1
            try:
                self._train_once(times, batch_size, 0)
            finally:
                self.replay_buffer = buffer
                if delay is not None:
                    self.policy_delay = delay
            self._repeated_updates += times - 1

        def _train_once(self, gradient_steps: int, batch_size: int, updates: int) -> None:
            """Call ``train`` of the base, whose policy delay counts from this number of updates."""
            before, self._n_updates = self._n_updates, updates
            try:
                super().train(gradient_steps=gradient_steps, batch_size=batch_size)
            finally:
                self._n_updates += before - updates
            self.logger.record("train/n_updates", self._n_updates, exclude="tensorboard")

    WithReuse.__name__ = WithReuse.__qualname__ = f"{base.__name__}WithReuse"
    WithReuse.__doc__ = f"{base.__name__} with {rule} gradient steps per batch.\n\n{base.__doc__ or ''}"
    return WithReuse


class _OneBatch:
    """A replay buffer that holds one batch."""

    def __init__(self, batch: Any, size: int) -> None:
        self._batch, self._size = batch, size

    def sample(self, batch_size: int, env: Any = None) -> Any:
        """Return the batch, repeated if more rows are asked for: SBX draws those of all gradient steps at once."""
        copies, rest = divmod(batch_size, self._size)
        require(
            copies > 0 and rest == 0,
            f"train draws {batch_size:,} rows from batches of {self._size:,}; it cannot have reuse.",
        )
        return self._batch if copies == 1 else type(self._batch)(*(_repeat(part, copies) for part in self._batch))


def _repeat(part: Any, copies: int) -> Any:
    """Return copies of a part of a batch below each other: of a tensor, a dictionary of tensors or None."""
    if isinstance(part, dict):
        return {name: _repeat(tensor, copies) for name, tensor in part.items()}
    return None if part is None else part.repeat(copies, *[1] * (part.ndim - 1))
