"""TQC (Kuznetsov et al., 2020): SAC with truncated quantile critics.

a′ ~ π(s′);  z_(1) ≤ z_(2) ≤ …: the atoms of all target critics at (s′, a′) without the largest, some per critic
y_k = r + γ (1 − d) (z_(k) − α log π(a′|s′))       critics: min quantile Huber loss of all atoms against all y_k
actor: min mean (α log π(ã|s) − mean of all atoms at (s, ã)),  ã ~ π(s)
temperature: min −log α mean (log π(ã|s) + H̄)      targets: θ′ ← τ θ + (1 − τ) θ′

All three gradients are taken before any optimiser step. This agrees with the published code, which evaluates the
actor's loss before the critics' step, and with the paper's pseudo-code, which lists the updates in another order.
"""

from dataclasses import dataclass

import jax
import jax.numpy as jnp

from smrl.algorithms.parts.soft import SoftHyperparameters, State, pieces
from smrl.errors import require
from smrl.nn import losses, targets
from smrl.types import Algorithm, Array, Key, Metrics, Spec, Tick, Transition
from smrl.validation import Count, Index, Sizes


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

    parts = pieces(config, spec, config.critics, mean_of_atoms, atoms=config.atoms)

    def target(state: State, batch: Transition, alpha: Array, key: Key) -> Array:  # (batch, kept)
        next_atoms, next_log_prob = parts.look_ahead(
            state.actor.params, parts.critics, state.target_critics, batch.next_obs, key
        )
        kept = targets.truncated(next_atoms, config.dropped)
        return targets.bellman(batch, (kept - alpha * next_log_prob[:, None]).T).T

    def td_error(state: State, batch: Transition, key: Key) -> Array:
        y = target(state, batch, jnp.exp(state.log_alpha.params), key)
        return parts.mean_q(state, batch.obs, batch.action) - y.mean(axis=1)

    def update(state: State, batch: Transition, tick: Tick, key: Key) -> tuple[State, Metrics]:
        target_key, critic_key, actor_key = jax.random.split(key, 3)
        alpha = jnp.exp(state.log_alpha.params)
        y = target(state, batch, alpha, target_key)
        critics, critic_metrics = parts.update_critics(
            state.critics, batch, lambda atoms: losses.quantile_huber(atoms, y), critic_key
        )
        actor, actor_metrics = parts.update_actor(state.actor, state.critics.params, batch.obs, alpha, actor_key)
        log_alpha = parts.update_temperature(state.log_alpha, actor_metrics["entropy"], weight=lambda x: x)
        target_critics = parts.follow(state.target_critics, critics)
        metrics = critic_metrics | actor_metrics | {"alpha": alpha}
        return State(actor, critics, log_alpha, target_critics), metrics

    return Algorithm(parts.init, parts.explore, parts.exploit, update, td_error, parts.appraise)
