"""DARC (Lyu et al., 2022): two actor-critic pairs that learn in turns, each from a batch of its own.

ã_k = clip(π′_k(s′) + clip(ε, ±c), ±1),  ε ~ N(0, σ̄²) the same for both actors;  v_k = min_j Q′_j(s′, ã_k)
y = r + γ (1 − d) (ν min_k v_k + (1 − ν) max_k v_k)
pair i, in its round:  critic: min mean (Q_i(s, a) − y)² + λ mean (Q_i(s, a) − Q_j(s, a))²,  j the other
                       actor:  max mean Q_i(s, π_i(s))        targets of the pair: θ′ ← τ θ + (1 − τ) θ′
acting: arg max of Q_i(s, a) over both critics and the actions of both actors
"""

from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import jax
import jax.numpy as jnp

from smrl.algorithms.parts.acceptance import continuous_control
from smrl.algorithms.parts.exploration import gaussian_noise
from smrl.algorithms.parts.hyperparameters import Hyperparameters
from smrl.algorithms.parts.regression import regress
from smrl.nn import losses, targets
from smrl.nn import optimiser as gradients
from smrl.nn.networks import DeterministicActor, Ensemble
from smrl.nn.optimiser import TrainState
from smrl.types import Algorithm, Appraisal, Array, Key, Metrics, Params, Spec, Transition, UpdateContext
from smrl.validation import NonNegative, Positive, Share, Sizes


@dataclass(frozen=True, kw_only=True)
class DARC(Hyperparameters):
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
    """DARC for an environment."""
    action_size = continuous_control(spec, "DARC")
    actor = DeterministicActor(config.actor_hidden, action_size, config.actor_start(), config.activation)
    critic = config.critic()
    one_critic, two_critics = Ensemble(critic, 1, stacked=False), Ensemble(critic, 2, stacked=False)
    actor_optimiser, critic_optimiser = config.optimiser("actor"), config.optimiser("critic")

    def init(key: Key) -> State:
        example = spec.example()

        def pair(key: Key) -> State:
            actor_key, critic_key = jax.random.split(key)
            actor_params = actor.init(actor_key, example.obs)
            critic_params = critic.init(critic_key, example.obs, example.action)
            return State(
                actor_optimiser.start(actor_params),
                critic_optimiser.start((critic_params,)),
                target_actors=actor_params,
                target_critics=(critic_params,),
            )

        return jax.vmap(pair)(jax.random.split(key))

    def both(critics: Params) -> Params:
        return pick(critics, 0) + pick(critics, 1)

    def target(state: State, batch: Transition, noise_key: Key, target_key: Key) -> Array:
        def value(k: int) -> Array:
            """v_k, the value of actor k; called with the same keys for both actors."""
            next_action = actor.apply(pick(state.target_actors, k), batch.next_obs)
            next_action = gaussian_noise(next_action, config.target_noise, noise_key, config.noise_clip)
            next_q = two_critics(both(state.target_critics), batch.next_obs, next_action, key=target_key)
            return targets.clipped_double(next_q)

        return targets.bellman(batch, targets.weighted_extremes(jnp.stack([value(0), value(1)]), config.nu))

    def td_error(state: State, batch: Transition, key: Key) -> Array:
        q = two_critics(both(state.critics.params), batch.obs, batch.action).mean(axis=0)
        return q - target(state, batch, *jax.random.split(key))

    def update(state: State, batch: Transition, context: UpdateContext, key: Key) -> tuple[State, Metrics]:
        noise_key, target_key, critic_key, actor_key = jax.random.split(key, 4)
        turn = context.round % 2
        own, other = pick(state, turn), pick(state, 1 - turn)
        y = target(state, batch, noise_key, target_key)
        other_q = one_critic(other.critics.params, batch.obs, batch.action)

        def error(q: Array) -> Array:
            return losses.squared_error(q, y) + config.regularisation * losses.squared_error(q, other_q)

        critics, critic_metrics = regress(one_critic, own.critics, critic_optimiser, batch, error, critic_key)

        def actor_loss(params: Params) -> tuple[Array, Metrics]:
            value = -one_critic(critics.params, batch.obs, actor.apply(params, batch.obs), key=actor_key).mean()
            return value, {"actor_loss": value}

        actors, actor_metrics = gradients.apply_gradient(own.actors, actor_loss, actor_optimiser)

        learned = State(
            actors,
            critics,
            target_actors=targets.polyak_update(own.target_actors, actors.params, config.tau),
            target_critics=targets.polyak_update(own.target_critics, critics.params, config.tau),
        )
        return put(state, turn, learned), critic_metrics | actor_metrics

    def choices(state: State, obs: Array) -> tuple[Array, Array]:
        """The action of each actor, actors first, and its value by each critic, (actors, critics, batch)."""
        actions = jnp.stack([actor.apply(pick(state.actors.params, k), obs) for k in (0, 1)])
        critics = both(state.critics.params)
        return actions, jnp.stack([two_critics(critics, jnp.asarray(obs), action) for action in actions])

    def exploit(state: State, obs: Array) -> Array:
        actions, q = choices(state, obs)
        worth = q.max(axis=1) if config.acting == "best-of-four" else jnp.stack([q[0, 0], q[1, 1]])
        return jnp.where((worth[1] > worth[0])[:, None], actions[1], actions[0])

    def explore(state: State, obs: Array, step: Array, key: Key) -> Array:
        return gaussian_noise(exploit(state, obs), config.exploration_noise, key)

    def appraise(state: State, obs: Array, key: Key) -> Appraisal:
        action = exploit(state, obs)
        q = two_critics(both(state.critics.params), jnp.asarray(obs), action).mean(axis=0)
        return Appraisal(action, q, jnp.zeros_like(q), jnp.zeros(()))

    return Algorithm(init, explore, exploit, update, td_error, appraise, rounds=2)


def pick(tree: Any, index: Array | int) -> Any:
    """The actor-critic pair of this index."""
    return jax.tree.map(lambda leaf: leaf[index], tree)


def put(tree: Any, index: Array, one: Any) -> Any:
    """Both pairs, with the one of this index replaced."""
    return jax.tree.map(lambda leaf, new: leaf.at[index].set(new), tree, one)
