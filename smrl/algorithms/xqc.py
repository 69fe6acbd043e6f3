"""XQC (Palenicek et al., 2025): SAC with batch-normalised critics of the return's distribution and unit-norm weights.

p_i(s, a): probabilities of the returns z_1 < … < z_n, evenly spaced in ±limit;  Q_i = Σ_k z_k p_ik
y: the distribution of r + γ (1 − d) (Z − α log π(a′|s′)),  Z ~ p′_j(s′, a′),  j = argmin_i Q′_i,  a′ ~ π(s′)
critics:      min −Σ_i mean Σ_k y_k log p_ik(s, a)
actor:        min mean (α log π(ã|s) − min_i Q_i(s, ã)),  ã ~ π(s), every delay-th learning step
temperature:  min −α mean (log π(ã|s) + H̄),  α = exp(log α), with the actor
weights:      w ← w / ‖w‖ for the weights w of each output of each layer of actor and critics, after every step
targets:      θ′ ← τ θ + (1 − τ) θ′

(s, a) and (s′, a′) go through a critic as one batch, so that both are normalised by the same statistics (CrossQ, Bhatt
et al., 2024). Acting and the actor's loss use running statistics of the network that is not learning. The published
learning rate falls to a tenth in the course of a run; here it is constant.
"""

from dataclasses import dataclass, replace
from typing import Any, Literal, NamedTuple

import jax
import jax.numpy as jnp

from smrl.algorithms.common import SoftConfig, gaussian_noise, require_vectors_and_continuous_actions
from smrl.errors import require
from smrl.layers import Activation, Dense, Layer
from smrl.nn.batch_norm import BatchNormMLP
from smrl.nn.losses import bellman
from smrl.nn.networks import sample_tanh_gaussian
from smrl.nn.optimiser import Adam, TrainState, apply_gradient, polyak_update
from smrl.types import Algorithm, Array, Key, Metrics, Params, Spec, Transition, UpdateContext
from smrl.validation import Count, Few, Positive, Sizes


@dataclass(frozen=True, kw_only=True)
class XQC(SoftConfig):
    """Hyperparameters of XQC; the defaults are those of its authors."""

    actor_hidden: Sizes = (256, 256, 256, 256)
    critic_hidden: Sizes = (512, 512, 512, 512)
    atoms: Few = 101
    """Returns z_k whose probabilities each critic computes."""
    limit: Positive = 5.0
    """Largest return z_n, the negative of the smallest; --normalise-rewards brings returns into this range."""
    delay: Count = 3
    """Learning steps between two updates of the actor and the temperature."""
    initial_temperature: Positive = 0.01
    target_entropy_factor: float = -0.5
    log_std_min: float = -10.0

    def __post_init__(self) -> None:
        is_plain = not (self.layer_norm or self.dropout or self.weight_decay or self.weight_projection)
        require(
            is_plain and self.activation == "relu" and self.network == "mlp",
            "XQC normalises batches and weights by itself: leave out layer_norm, dropout, weight_decay, "
            "weight_projection, activation and network.",
        )
        super().__post_init__()
        require(self.atoms > 1, "XQC needs at least two atoms.")

    def optimiser(self, network: Literal["actor", "critic", "temperature"] = "critic") -> Adam:
        """Return Adam, which projects the weights of actor and critics."""
        return replace(super().optimiser(network), projection=None if network == "temperature" else "all")


class XQCState(NamedTuple):
    """Networks with their optimisers, the logarithm of the temperature, the target critics, and running statistics."""

    actor: TrainState
    critics: TrainState
    log_alpha: TrainState
    target_critics: Params
    actor_statistics: Params
    critic_statistics: Params


@dataclass(frozen=True)
class Networks:
    """Networks and policy of XQC."""

    config: XQC
    spec: Spec
    action_size: int
    actor: BatchNormMLP
    critic: BatchNormMLP
    returns: Array  # z

    def init(self, key: Key) -> XQCState:
        """Initialise the networks; the target critics start as exact copies."""
        actor_key, *critic_keys = jax.random.split(key, 3)
        inputs = self.spec.obs.shape[0]
        actor, actor_statistics = self.actor.start(actor_key, inputs)
        critics, statistics = zip(
            *(self.critic.start(key, inputs + self.action_size) for key in critic_keys), strict=True
        )
        trained = self.config.optimiser("critic").start(critics)
        return XQCState(
            self.config.optimiser("actor").start(actor),
            trained,
            self.config.optimiser("temperature").start(self.config.initial_log_alpha()),
            target_critics=trained.params,
            actor_statistics=actor_statistics,
            critic_statistics=statistics,
        )

    def sample(self, outputs: Array, key: Key) -> tuple[Array, Array]:
        """Return a ~ π and log π(a), given the outputs of the actor."""
        mean, log_std = jnp.split(outputs, 2, axis=-1)
        log_std = jnp.clip(log_std, self.config.log_std_min, self.config.log_std_max)
        return sample_tanh_gaussian(mean, log_std, key, self.config.log_prob_floor)

    def joint(
        self, params: Params, statistics: Params, batch: Transition, next_action: Array
    ) -> tuple[Array, Array, Params]:
        """Return the logits at (s, a) and (s′, a′), each (critics, batch, atoms), and the critics' new statistics."""
        rows = jnp.concatenate([pairs(batch.obs, batch.action), pairs(batch.next_obs, next_action)])
        answers = [self.critic.train(*member, rows) for member in zip(params, statistics, strict=True)]
        now, then = jnp.split(jnp.stack([logits for logits, _ in answers]), 2, axis=1)
        return now, then, tuple(changed for _, changed in answers)

    def q_values(self, state: XQCState, obs: Array, action: Array) -> Array:
        """Return Q_i(s, a), (critics, batch), by running statistics."""
        rows, members = pairs(obs, action), zip(state.critics.params, state.critic_statistics, strict=True)
        return jnp.stack([self.mean(self.critic.predict(*member, rows)) for member in members])

    def mean(self, logits: Array) -> Array:
        """Return Q = Σ_k z_k p_k."""
        return jax.nn.softmax(logits) @ self.returns

    def exploit(self, policy: tuple[Params, Params], obs: Array) -> Array:
        """Return the greedy action, the tanh of the mean."""
        return jnp.tanh(self.actor.predict(*policy, obs)[..., : self.action_size])

    def explore(self, policy: tuple[Params, Params], obs: Array, step: Array, key: Key) -> Array:
        """Sample the policy, or add Gaussian noise to its greedy action."""
        if self.config.exploration == "mean-plus-noise":
            return gaussian_noise(self.exploit(policy, obs), self.config.exploration_noise, key)
        return self.sample(self.actor.predict(*policy, obs), key)[0]

    def network(self, policy: tuple[Params, Params]) -> list[Layer]:
        """Return the layers of `exploit`."""
        *hidden, last = self.actor.network(*policy)
        assert isinstance(last, Dense)
        return [*hidden, Dense(last.weights[:, : self.action_size], last.bias[: self.action_size]), Activation("tanh")]

    def algorithm(self, update: Any) -> Algorithm[XQCState]:
        """Bundle the update with the rest."""
        return Algorithm(
            init=self.init,
            update=update,
            explore=self.explore,
            exploit=self.exploit,
            policy_params=policy_of,
            q_values=self.q_values,
            policy_sample=lambda state, obs, key: self.sample(self.actor.predict(*policy_of(state), obs), key),
            temperature=lambda state: jnp.exp(state.log_alpha.params),
            network=self.network,
        )


def policy_of(state: XQCState) -> tuple[Params, Params]:
    """Return the actor's parameters and running statistics."""
    return state.actor.params, state.actor_statistics


def xqc(config: XQC, spec: Spec) -> Algorithm[XQCState]:
    """Make XQC for an environment."""
    size = require_vectors_and_continuous_actions(spec, "XQC")
    actor = BatchNormMLP((*config.actor_hidden, 2 * size), config.actor_initializer(heads=2))
    critic = BatchNormMLP((*config.critic_hidden, config.atoms), config.actor_initializer())
    returns = jnp.linspace(-config.limit, config.limit, config.atoms)
    base = Networks(config, spec, size, actor, critic, returns)
    target_entropy = config.target_entropy_of(size)

    def target(state: XQCState, batch: Transition, next_action: Array, next_log_prob: Array) -> Array:  # (batch, atoms)
        _, logits, _ = base.joint(state.target_critics, state.critic_statistics, batch, next_action)
        smallest = jnp.argmin(base.mean(logits), axis=0)
        p = jax.nn.softmax(jnp.take_along_axis(logits, smallest[None, :, None], axis=0)[0])
        alpha = jnp.exp(state.log_alpha.params)
        return spread(bellman(batch, returns[:, None] - alpha * next_log_prob).T, p, returns)

    def update(state: XQCState, batch: Transition, context: UpdateContext, key: Key) -> tuple[XQCState, Metrics]:
        target_key, actor_key = jax.random.split(key)
        next_action, next_log_prob = base.sample(actor.predict(*policy_of(state), batch.next_obs), target_key)
        y = target(state, batch, next_action, next_log_prob)

        def critic_loss(params: Params) -> tuple[Array, Metrics]:  # −Σ_i mean Σ_k y_k log p_ik(s, a)
            logits, _, statistics = base.joint(params, state.critic_statistics, batch, next_action)
            loss = -(y * jax.nn.log_softmax(logits)).sum(axis=-1).mean(axis=-1).sum()
            return loss, {"critic_loss": loss, "q": base.mean(logits).mean(), "statistics": statistics}

        new_critics, metrics = apply_gradient(state.critics, critic_loss, config.optimiser("critic"))
        new_targets = polyak_update(state.target_critics, new_critics.params, config.tau)  # θ′ ← τ θ + (1 − τ) θ′
        statistics = metrics.pop("statistics")
        state = state._replace(critics=new_critics, critic_statistics=statistics, target_critics=new_targets)
        alpha = jnp.exp(state.log_alpha.params)

        def actor_loss(params: Params) -> tuple[Array, Metrics]:  # mean (α log π(ã|s) − min_i Q_i(s, ã))
            outputs, statistics = actor.train(params, state.actor_statistics, batch.obs)
            action, log_prob = base.sample(outputs, actor_key)
            loss = (alpha * log_prob - base.q_values(state, batch.obs, action).min(axis=0)).mean()
            return loss, {"actor_loss": loss, "entropy": -log_prob.mean(), "statistics": statistics}

        def update_actor(state: XQCState) -> tuple[XQCState, Metrics]:
            new_actor, metrics = apply_gradient(state.actor, actor_loss, config.optimiser("actor"))

            def temperature_loss(log_alpha: Params) -> tuple[Array, Metrics]:  # −α mean (log π(ã|s) + H̄)
                return config.temperature_weight(log_alpha) * (metrics["entropy"] - target_entropy), {}

            log_alpha = state.log_alpha
            if config.temperature == "auto":
                log_alpha, _ = apply_gradient(log_alpha, temperature_loss, config.optimiser("temperature"))
            statistics = metrics.pop("statistics")
            return state._replace(actor=new_actor, log_alpha=log_alpha, actor_statistics=statistics), metrics

        unknown = jnp.full((), jnp.nan)
        is_due = context.step % config.delay == 0
        state, actor_metrics = jax.lax.cond(
            is_due, update_actor, lambda state: (state, {"actor_loss": unknown, "entropy": unknown}), state
        )
        return state, metrics | actor_metrics | {"alpha": alpha}

    return base.algorithm(update)


def pairs(obs: Array, action: Array) -> Array:
    """Join observations and actions to the inputs of a critic."""
    return jnp.concatenate([obs, action], axis=-1)


def spread(values: Array, p: Array, returns: Array) -> Array:
    """Give the probability of each value to the two nearest returns, in proportion to how near they are.

    Both arguments are (batch, atoms), and values outside the returns count as the first or the last of these.
    """
    step = returns[1] - returns[0]
    values = jnp.clip(values, returns[0], returns[-1])
    nearness = jnp.maximum(0, 1 - jnp.abs(values[:, :, None] - returns) / step)  # (batch, values, returns)
    return jnp.einsum("bj,bjk->bk", p, nearness)
