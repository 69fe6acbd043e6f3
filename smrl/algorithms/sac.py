"""SAC (Haarnoja et al., 2018): twin soft critics, a tanh-Gaussian actor and a learned temperature.

a′ ~ π(s′)
y = r + γ (1 − d) (min_i Q′_i(s′, a′) − α log π(a′|s′))     critics: min Σ_i mean (Q_i(s, a) − y)²
actor: min mean (α log π(ã|s) − min_i Q_i(s, ã)),  ã ~ π(s)
temperature: min −α mean (log π(ã|s) + H̄),  α = exp(log α)   targets: θ′ ← τ θ + (1 − τ) θ′
"""

from dataclasses import dataclass
from typing import Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from smrl import gradients, targets
from smrl.algorithms.checks import check_hyperparameters
from smrl.algorithms.exploration import gaussian_noise
from smrl.gradients import Trained
from smrl.networks import Critic, GaussianActor, ensemble, sample_tanh_gaussian
from smrl.types import Algorithm, Array, Key, Metrics, Params, Spec, Tick, Transition


@dataclass(frozen=True)
class SAC:
    """Hyperparameters of SAC; the defaults are the paper's table."""

    actor_hidden: tuple[int, ...] = (256, 256)
    critic_hidden: tuple[int, ...] = (256, 256)
    actor_learning_rate: float = 3e-4
    critic_learning_rate: float = 3e-4
    temperature_learning_rate: float = 3e-4
    tau: float = 0.005
    target_entropy: float | None = None  # None: minus the number of action dimensions
    exploration: Literal["sample", "mean-plus-noise"] = "sample"  # the latter is the authors' code
    exploration_noise: float = 0.1  # of mean-plus-noise

    def __post_init__(self) -> None:
        check_hyperparameters(self)


class State(NamedTuple):
    """What is learned."""

    actor: Trained
    critics: Trained
    log_alpha: Trained
    target_critics: Params


def sac(config: SAC, spec: Spec) -> Algorithm[State]:
    """SAC for an environment."""
    actor = GaussianActor(config.actor_hidden, spec.action_size)
    critics = ensemble(Critic(config.critic_hidden), 2)
    actor_optimiser = gradients.adam(config.actor_learning_rate)
    critic_optimiser = gradients.adam(config.critic_learning_rate)
    temperature_optimiser = gradients.adam(config.temperature_learning_rate)
    target_entropy = -float(spec.action_size) if config.target_entropy is None else config.target_entropy

    def init(key: Key) -> State:
        actor_key, critic_key = jax.random.split(key)
        obs, action = jnp.zeros((1, spec.obs_size)), jnp.zeros((1, spec.action_size))
        critic_params = critics.init(critic_key, obs, action)
        return State(
            gradients.start(actor.init(actor_key, obs), actor_optimiser),
            gradients.start(critic_params, critic_optimiser),
            gradients.start(jnp.zeros(()), temperature_optimiser),
            target_critics=critic_params,
        )

    def sample(params: Params, obs: Array | np.ndarray, key: Key) -> tuple[Array, Array]:
        mean, log_std = actor.apply(params, obs)
        return sample_tanh_gaussian(mean, log_std, key)

    def update(state: State, batch: Transition, tick: Tick, key: Key) -> tuple[State, Metrics]:
        target_key, actor_key = jax.random.split(key)
        alpha = jnp.exp(state.log_alpha.params)

        next_action, next_log_prob = sample(state.actor.params, batch.next_obs, target_key)
        next_q = critics(state.target_critics, batch.next_obs, next_action)
        y = targets.bellman(batch, targets.soft_clipped_double(next_q, next_log_prob, alpha))

        def critic_loss(params: Params) -> tuple[Array, Metrics]:
            q = critics(params, batch.obs, batch.action)
            loss = gradients.squared_error(q, y)
            return loss, {"critic_loss": loss, "q": q.mean()}

        new_critics, critic_metrics = gradients.descend(state.critics, critic_loss, critic_optimiser)

        def actor_loss(params: Params) -> tuple[Array, Metrics]:
            action, log_prob = sample(params, batch.obs, actor_key)
            q = critics(new_critics.params, batch.obs, action).min(axis=0)
            loss = (alpha * log_prob - q).mean()
            return loss, {"actor_loss": loss, "entropy": -log_prob.mean()}

        new_actor, actor_metrics = gradients.descend(state.actor, actor_loss, actor_optimiser)

        def temperature_loss(log_alpha: Params) -> tuple[Array, Metrics]:
            return jnp.exp(log_alpha) * (actor_metrics["entropy"] - target_entropy), {}

        new_log_alpha, _ = gradients.descend(state.log_alpha, temperature_loss, temperature_optimiser)

        return State(
            new_actor,
            new_critics,
            new_log_alpha,
            target_critics=targets.soft_update(state.target_critics, new_critics.params, config.tau),
        ), critic_metrics | actor_metrics | {"alpha": alpha}

    def exploit(state: State, obs: Array | np.ndarray) -> Array:
        mean, _ = actor.apply(state.actor.params, obs)
        return jnp.tanh(mean)

    def explore(state: State, obs: Array | np.ndarray, step: Array, key: Key) -> Array:
        if config.exploration == "mean-plus-noise":
            return gaussian_noise(exploit(state, obs), config.exploration_noise, key)
        return sample(state.actor.params, obs, key)[0]

    return Algorithm(init, explore, exploit, update)
