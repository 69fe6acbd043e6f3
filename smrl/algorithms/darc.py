"""DARC (Lyu et al., 2022): two actor-critic pairs that learn in turns, each from its own batch.

    ã_k = clip(π′_k(s′) + clip(ε, ±c), ±1),  ε ~ N(0, σ̄²) the same for both actors
    v_k = min_j Q′_j(s′, ã_k)
    y = r + γ (1 − d) (ν min_k v_k + (1 − ν) max_k v_k)

Pair i, in its round, where j is the other pair:

    critic:   min mean (Q_i(s, a) − y)² + λ mean (Q_i(s, a) − Q_j(s, a))²
    actor:    max mean Q_i(s, π_i(s))
    targets:  θ′ ← τ θ + (1 − τ) θ′, of this pair

Acting: arg max of Q_i(s, a) over both critics and the actions of both actors.
"""

from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import jax
import jax.numpy as jnp

from smrl import layers
from smrl.algorithms.common import (
    ActorCriticConfig,
    deterministic_actor,
    gaussian_noise,
    require_vectors_and_continuous_actions,
    without_entropy,
)
from smrl.nn.losses import bellman, squared_error
from smrl.nn.networks import Ensemble
from smrl.nn.optimiser import TrainState, apply_gradient, polyak_update
from smrl.types import Algorithm, Array, Key, Metrics, Params, Spec, Transition, UpdateContext
from smrl.validation import NonNegative, Positive, Share, Sizes


@dataclass(frozen=True, kw_only=True)
class DARC(ActorCriticConfig):
    """Hyperparameters of DARC; the defaults are the paper's table."""

    actor_hidden: Sizes = (400, 300)
    critic_hidden: Sizes = (400, 300)
    learning_rate: Positive = 1e-3
    target_noise: NonNegative = 0.2
    """Standard deviation of the noise on the target policies' actions (target policy smoothing)."""
    noise_clip: NonNegative = 0.5
    """Bound of the noise on the target policies' actions."""
    nu: Share = 0.1
    """Weight ν of the smaller of the two actors' values in the target."""
    regularisation: NonNegative = 0.005
    """Weight λ of the squared difference of the two critics in their losses."""
    acting: Literal["best-of-four", "own-critic"] = "best-of-four"
    """Choose between the actors' actions by both critics (pseudo-code) or by each actor's critic (authors' code)."""


class State(NamedTuple):
    """Actors, critics and their targets; the leading axis of every array is the pair."""

    actors: TrainState
    critics: TrainState
    target_actors: Params
    target_critics: Params


def darc(config: DARC, spec: Spec) -> Algorithm[State]:
    """Make DARC for an environment."""
    action_size = require_vectors_and_continuous_actions(spec, "DARC")
    actor = deterministic_actor(config, action_size)
    critic = config.critic()
    one_critic, two_critics = Ensemble(critic, 1, stacked=False), Ensemble(critic, 2, stacked=False)
    actor_optimiser, critic_optimiser = config.optimiser("actor"), config.optimiser("critic")

    def init(key: Key) -> State:
        example = spec.example()

        def pair(key: Key) -> State:
            actor_key, critic_key = jax.random.split(key)
            actor_params = actor.init(actor_key, example.obs)
            critics = critic_optimiser.start((critic.init(critic_key, example.obs, example.action),))
            return State(
                actor_optimiser.start(actor_params),
                critics,
                target_actors=actor_params,
                target_critics=critics.params,
            )

        return jax.vmap(pair)(jax.random.split(key))

    def both(critics: Params) -> Params:
        return pick(critics, 0) + pick(critics, 1)

    def target(state: State, batch: Transition, noise_key: Key, dropout_key: Key) -> Array:
        def value(k: int) -> Array:  # v_k, with the same keys for both actors
            next_action = actor.apply(pick(state.target_actors, k), batch.next_obs)
            next_action = gaussian_noise(next_action, config.target_noise, noise_key, config.noise_clip)
            return two_critics(both(state.target_critics), batch.next_obs, next_action, dropout_key).min(axis=0)

        values = jnp.stack([value(0), value(1)])
        # y = r + γ (1 − d) (ν min_k v_k + (1 − ν) max_k v_k)
        return bellman(batch, config.nu * values.min(axis=0) + (1 - config.nu) * values.max(axis=0))

    def update(state: State, batch: Transition, context: UpdateContext, key: Key) -> tuple[State, Metrics]:
        noise_key, target_key, critic_key, actor_key = jax.random.split(key, 4)
        turn = context.round % 2
        own, other = pick(state, turn), pick(state, 1 - turn)
        y = target(state, batch, noise_key, target_key)
        other_q = one_critic(other.critics.params, batch.obs, batch.action)

        def critic_loss(params: Params) -> tuple[Array, Metrics]:  # mean (Q_i − y)² + λ mean (Q_i − Q_j)²
            q = one_critic(params, batch.obs, batch.action, critic_key)
            loss = squared_error(q, y) + config.regularisation * squared_error(q, other_q)
            return loss, {"critic_loss": loss, "q": q.mean()}

        new_critics, critic_metrics = apply_gradient(own.critics, critic_loss, critic_optimiser)

        def actor_loss(params: Params) -> tuple[Array, Metrics]:  # −mean Q_i(s, π_i(s))
            loss = -one_critic(new_critics.params, batch.obs, actor.apply(params, batch.obs), actor_key).mean()
            return loss, {"actor_loss": loss}

        new_actors, actor_metrics = apply_gradient(own.actors, actor_loss, actor_optimiser)
        new_pair = State(
            new_actors,
            new_critics,
            target_actors=polyak_update(own.target_actors, new_actors.params, config.tau),
            target_critics=polyak_update(own.target_critics, new_critics.params, config.tau),
        )
        return put(state, turn, new_pair), critic_metrics | actor_metrics

    def exploit(policy: tuple[Params, Params], obs: Array) -> Array:
        actors, critics = policy
        actions = jnp.stack([actor.apply(pick(actors, k), obs) for k in (0, 1)])
        # (actors, critics, batch)
        q = jnp.stack([two_critics(both(critics), jnp.asarray(obs), action) for action in actions])
        value = q.max(axis=1) if config.acting == "best-of-four" else jnp.stack([q[0, 0], q[1, 1]])
        return jnp.where((value[1] > value[0])[:, None], actions[1], actions[0])

    def explore(policy: tuple[Params, Params], obs: Array, step: Array, key: Key) -> Array:
        return gaussian_noise(exploit(policy, obs), config.exploration_noise, key)

    def policy_params(state: State) -> tuple[Params, Params]:
        return state.actors.params, state.critics.params

    def network(policy: tuple[Params, Params]) -> list[layers.Layer]:
        actors, critics = policy
        return [
            layers.BestActor(
                tuple(actor.network(pick(actors, k)) for k in (0, 1)),
                tuple(critic.network(params) for params in both(critics)),
                own_critic=config.acting == "own-critic",
            )
        ]

    return Algorithm(
        init=init,
        update=update,
        explore=explore,
        exploit=exploit,
        policy_params=policy_params,
        rounds=2,
        q_values=lambda state, obs, action: two_critics(both(state.critics.params), jnp.asarray(obs), action),
        policy_sample=lambda state, obs, key: without_entropy(exploit(policy_params(state), obs)),
        network=network,
        critic_networks=lambda state: [critic.network(params) for params in both(state.critics.params)],
    )


def pick(tree: Any, index: Array | int) -> Any:
    """Return the actor-critic pair at an index."""
    return jax.tree.map(lambda leaf: leaf[index], tree)


def put(tree: Any, index: Array, pair: Any) -> Any:
    """Return both pairs, with the one at an index replaced."""
    return jax.tree.map(lambda leaf, new: leaf.at[index].set(new), tree, pair)
