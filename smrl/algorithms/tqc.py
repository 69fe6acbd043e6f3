"""TQC (Kuznetsov et al., 2020): SAC with truncated quantile critics.

a′ ~ π(s′);  z_(1) ≤ z_(2) ≤ …: the atoms of all target critics at (s′, a′) without the largest, some per critic
y_k = r + γ (1 − d) (z_(k) − α log π(a′|s′))       critics: min quantile Huber loss of all atoms against all y_k
actor: min mean (α log π(ã|s) − mean of all atoms at (s, ã)),  ã ~ π(s)
temperature: min −log α mean (log π(ã|s) + H̄)      targets: θ′ ← τ θ + (1 − τ) θ′

Order: critics, actor under the new critics, temperature. The published code evaluates the actor's loss under the old
critics and, with the PyTorch that it pins, differentiates it through the weights of the new ones; of the three orders
on offer this one's gradient is the closest to that. The pseudo-code lists temperature, actor, critics.
"""

from dataclasses import dataclass
from typing import Literal

import jax
import jax.numpy as jnp

from smrl.algorithms.parts.soft import SoftHyperparameters, State, pieces
from smrl.errors import require
from smrl.nn import losses, targets
from smrl.nn.optimiser import TrainState
from smrl.types import Algorithm, Array, Key, Metrics, Params, Spec, Transition, UpdateContext
from smrl.validation import Count, Index, Positive, Sizes


@dataclass(frozen=True, kw_only=True)
class TQC(SoftHyperparameters):
    """Hyperparameters of TQC; the defaults are the paper's table."""

    critic_hidden: Sizes = (512, 512, 512)
    critics: Count = 5
    """Number of critics."""
    atoms: Count = 25
    """Quantiles (atoms) of each critic."""
    dropped: Index = 2
    """Number of largest atoms that the target leaves out, per critic."""
    huber: Positive = 1.0
    """Error κ above which the quantile Huber loss is linear."""
    temperature_loss: Literal["alpha", "log-alpha"] = "log-alpha"
    order: Literal["critics-first", "together", "actor-first"] = "critics-first"
    """Order of the steps of an update: the actor under the new critics; all gradients before any step; or temperature,
    actor, critics, as in the pseudo-code."""

    def __post_init__(self) -> None:
        super().__post_init__()
        require(
            self.dropped < self.atoms,
            f"dropped must leave some of the {self.atoms} atoms that a critic has, not be {self.dropped}.",
        )


def tqc(config: TQC, spec: Spec) -> Algorithm[State]:
    """TQC for an environment."""

    def mean_of_atoms(atoms: Array) -> Array:  # (critics, batch, atoms) → (batch,)
        return atoms.mean(axis=(0, 2))

    parts = pieces(config, spec, config.critics, mean_of_atoms, config.atoms)

    def target(state: State, batch: Transition, key: Key) -> Array:  # (batch, kept)
        alpha = jnp.exp(state.log_alpha.params)
        next_atoms, next_log_prob = parts.look_ahead(state.actor.params, state.target_critics, batch.next_obs, key)
        kept = targets.truncated(next_atoms, config.dropped)
        return targets.bellman(batch, (kept - alpha * next_log_prob[:, None]).T).T

    def td_error(state: State, batch: Transition, key: Key) -> Array:
        y = target(state, batch, key)
        return parts.mean_q(state, batch.obs, batch.action) - y.mean(axis=1)

    def update(state: State, batch: Transition, context: UpdateContext, key: Key) -> tuple[State, Metrics]:
        target_key, critic_key, actor_key = jax.random.split(key, 3)

        def learn_critics(state: State) -> tuple[TrainState, Metrics]:
            y = target(state, batch, target_key)
            return parts.update_critics(
                state.critics, batch, lambda atoms: losses.quantile_huber(atoms, y, config.huber), critic_key
            )

        def learn_actor(state: State, critics: Params) -> tuple[TrainState, Metrics]:
            alpha = jnp.exp(state.log_alpha.params)
            actor, metrics = parts.update_actor(state.actor, critics, batch.obs, alpha, actor_key)
            return actor, metrics | {"alpha": alpha}

        if config.order == "actor-first":
            _, log_prob = parts.sample(state.actor.params, batch.obs, jax.random.fold_in(actor_key, 0))
            state = state._replace(log_alpha=parts.update_temperature(state.log_alpha, -log_prob.mean()))
            actor, actor_metrics = learn_actor(state, state.critics.params)
            state = state._replace(actor=actor)
            critics, critic_metrics = learn_critics(state)
        else:
            critics, critic_metrics = learn_critics(state)
            judges = critics if config.order == "critics-first" else state.critics
            actor, actor_metrics = learn_actor(state, judges.params)
            log_alpha = parts.update_temperature(state.log_alpha, actor_metrics["entropy"])
            state = state._replace(actor=actor, log_alpha=log_alpha)
        target_critics = parts.follow(state.target_critics, critics)
        return state._replace(critics=critics, target_critics=target_critics), critic_metrics | actor_metrics

    return Algorithm(parts.init, parts.explore, parts.exploit, update, td_error, parts.appraise)
