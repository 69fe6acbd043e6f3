"""TQC (Kuznetsov et al., 2020): SAC with truncated quantile critics.

    z_(1) ≤ z_(2) ≤ …: the atoms of all target critics at (s′, a′), a′ ~ π(s′), without the largest
    y_k = r + γ (1 − d) (z_(k) − α log π(a′|s′))
    critics:      min quantile Huber loss of all atoms against all y_k
    actor:        min mean (α log π(ã|s) − mean of all atoms at (s, ã)),  ã ~ π(s)
    temperature:  min −log α mean (log π(ã|s) + H̄)
    targets:      θ′ ← τ θ + (1 − τ) θ′

Order: critics, actor under the new critics, temperature. The published code evaluates the actor's loss under the old
critics but, with the PyTorch version it pins, differentiates it through the weights of the new ones. Among the three
orders offered here, this one's gradient is closest to that. The pseudo-code lists temperature, actor, critics.
"""

from dataclasses import dataclass
from functools import partial
from typing import Literal

import jax
import jax.numpy as jnp

from smrl.algorithms.common import SoftConfig, SoftState, require_vectors_and_continuous_actions, soft_actor_critic
from smrl.errors import require
from smrl.nn.losses import bellman
from smrl.nn.optimiser import TrainState, apply_gradient, polyak_update
from smrl.types import Algorithm, Array, Key, Metrics, Params, Spec, Transition, UpdateContext
from smrl.validation import Few, Index, Positive, Sizes


@dataclass(frozen=True, kw_only=True)
class TQC(SoftConfig):
    """Hyperparameters of TQC; the defaults are the paper's table."""

    critic_hidden: Sizes = (512, 512, 512)
    critics: Few = 5
    """Number of critics."""
    atoms: Few = 25
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


def tqc(config: TQC, spec: Spec) -> Algorithm[SoftState]:
    """Make TQC for an environment."""
    action_size = require_vectors_and_continuous_actions(spec, "TQC")
    base = soft_actor_critic(config, action_size, config.critics, config.atoms)
    actor, critics = base.actor, base.critics  # the critics return (critics, batch, atoms)

    def target(state: SoftState, batch: Transition, key: Key) -> Array:  # (batch, kept atoms)
        action_key, dropout_key = jax.random.split(key)
        next_action, next_log_prob = actor.sample(state.actor.params, batch.next_obs, action_key)
        next_atoms = critics(state.target_critics, batch.next_obs, next_action, dropout_key)
        alpha = jnp.exp(state.log_alpha.params)
        kept = truncate(next_atoms, config.dropped)
        # y_k = r + γ (1 − d) (z_(k) − α log π(a′|s′))
        return bellman(batch, (kept - alpha * next_log_prob[:, None]).T).T

    def update(state: SoftState, batch: Transition, context: UpdateContext, key: Key) -> tuple[SoftState, Metrics]:
        target_key, critic_key, actor_key = jax.random.split(key, 3)

        def update_critics(state: SoftState) -> tuple[TrainState, Metrics]:
            y = target(state, batch, target_key)

            def critic_loss(params: Params) -> tuple[Array, Metrics]:
                atoms = critics(params, batch.obs, batch.action, critic_key)
                loss = quantile_huber(atoms, y, config.huber)
                return loss, {"critic_loss": loss, "q": atoms.mean()}

            return apply_gradient(state.critics, critic_loss, config.optimiser("critic"))

        def update_actor(state: SoftState, critic_params: Params) -> tuple[TrainState, Metrics]:
            alpha = jnp.exp(state.log_alpha.params)
            action_key, dropout_key = jax.random.split(actor_key)

            def actor_loss(params: Params) -> tuple[Array, Metrics]:  # mean (α log π(ã|s) − mean of all atoms)
                action, log_prob = actor.sample(params, batch.obs, action_key)
                q = critics(critic_params, batch.obs, action, dropout_key).mean(axis=(0, 2))
                loss = (alpha * log_prob - q).mean()
                return loss, {"actor_loss": loss, "entropy": -log_prob.mean(), "alpha": alpha}

            return apply_gradient(state.actor, actor_loss, config.optimiser("actor"))

        def update_temperature(log_alpha: TrainState, entropy: Array) -> TrainState:
            def temperature_loss(log_alpha: Params) -> tuple[Array, Metrics]:  # −log α mean (log π(ã|s) + H̄)
                return config.temperature_weight(log_alpha) * (entropy - base.target_entropy), {}

            if config.temperature != "auto":
                return log_alpha
            return apply_gradient(log_alpha, temperature_loss, config.optimiser("temperature"))[0]

        if config.order == "actor-first":
            _, log_prob = actor.sample(state.actor.params, batch.obs, jax.random.fold_in(actor_key, 0))
            state = state._replace(log_alpha=update_temperature(state.log_alpha, -log_prob.mean()))
            new_actor, actor_metrics = update_actor(state, state.critics.params)
            state = state._replace(actor=new_actor)
            new_critics, critic_metrics = update_critics(state)
        else:
            new_critics, critic_metrics = update_critics(state)
            critics_for_actor = new_critics if config.order == "critics-first" else state.critics
            new_actor, actor_metrics = update_actor(state, critics_for_actor.params)
            new_log_alpha = update_temperature(state.log_alpha, actor_metrics["entropy"])
            state = state._replace(actor=new_actor, log_alpha=new_log_alpha)
        new_targets = polyak_update(state.target_critics, new_critics.params, config.tau)
        return state._replace(critics=new_critics, target_critics=new_targets), critic_metrics | actor_metrics

    def q_values(state: SoftState, obs: Array, action: Array) -> Array:  # the mean of each critic's atoms
        return critics(state.critics.params, obs, action).mean(axis=2)

    return base.algorithm(spec, update, q_values)


def truncate(next_atoms: Array, dropped: int) -> Array:
    """Pool and sort the atoms of all critics, and leave out the ``dropped`` largest per critic.

    (critics, batch, atoms) → (batch, critics · (atoms − dropped))
    """
    critics, batch, atoms = next_atoms.shape
    pooled = next_atoms.transpose(1, 0, 2).reshape(batch, critics * atoms)
    return -jax.lax.top_k(-pooled, critics * (atoms - dropped))[0]  # ascending; faster than a full sort


@partial(jax.custom_vjp, nondiff_argnums=(2,))
def quantile_huber(atoms: Array, y: Array, kappa: float = 1.0) -> Array:
    """Return the quantile Huber loss: mean |τ_j − 1[δ < 0]| H(δ), δ = y_k − θ_j, τ_j = (2j + 1)/(2n).

    H(δ) = δ²/2 where |δ| ≤ κ, else κ (|δ| − κ/2).
    ``atoms`` θ is (critics, batch, n), ``y`` is (batch, kept) and constant; the mean is over all four axes.
    """
    return _quantile_huber(atoms, y, kappa)[0]


def _quantile_huber(atoms: Array, y: Array, kappa: float) -> tuple[Array, Array]:
    """Return the loss and its gradient with respect to the atoms.

    Both are summed target by target: an array of all pairs would have millions of entries, which XLA would write to
    memory and read again in the backward pass.
    """
    n, kept = atoms.shape[-1], y.shape[-1]
    theta, targets = atoms.transpose(0, 2, 1), y.T  # batch axis last, so that the CPU vectorises over it
    fractions = ((jnp.arange(n) + 0.5) / n)[:, None]

    def add(k: Array, sums: tuple[Array, Array]) -> tuple[Array, Array]:
        delta = targets[k] - theta
        clipped = jnp.clip(delta, -kappa, kappa)  # H′(δ), and H(δ) = H′ (δ − H′/2)
        slope = jnp.where(delta < 0, 1 - fractions, fractions) * clipped
        return sums[0] + slope * (delta - 0.5 * clipped), sums[1] + slope

    zeros = jnp.zeros_like(theta)
    loss, slope = jax.lax.fori_loop(0, kept, add, (zeros, zeros))
    pairs = atoms.size * kept
    return loss.sum() / pairs, -slope.transpose(0, 2, 1) / pairs


def _forward(atoms: Array, y: Array, kappa: float) -> tuple[Array, tuple[Array, Array]]:
    loss, gradient = _quantile_huber(atoms, y, kappa)
    return loss, (gradient, jnp.zeros_like(y))


def _backward(kappa: float, gradients: tuple[Array, Array], slope: Array) -> tuple[Array, Array]:
    return slope * gradients[0], gradients[1]


quantile_huber.defvjp(_forward, _backward)
