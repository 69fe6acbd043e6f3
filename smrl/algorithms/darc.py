"""DARC (Lyu et al., 2022): two actors and two critics that learn in turns, each pair from a batch of its own.

ã_k = clip(π′_k(s′) + clip(ε, ±c), ±1),  ε ~ N(0, σ̄²) the same for both actors;  v_k = min_j Q′_j(s′, ã_k)
y = r + γ (1 − d) (ν min_k v_k + (1 − ν) max_k v_k)
pair i, in its round:  critic: min mean (Q_i(s, a) − y)² + λ mean (Q_i(s, a) − Q_j(s, a))²,  j the other
                       actor:  max mean Q_i(s, π_i(s))        targets of the pair: θ′ ← τ θ + (1 − τ) θ′
acting: the actor whose own critic thinks more of its action
"""

from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from smrl import gradients, losses, targets
from smrl.algorithms.exploration import gaussian_noise
from smrl.algorithms.hyperparameters import Hyperparameters
from smrl.algorithms.regression import regress
from smrl.errors import require
from smrl.gradients import Trained
from smrl.networks import DeterministicActor, Ensemble
from smrl.types import Algorithm, Appraisal, Array, Key, Metrics, Params, Spec, Tick, Transition


@dataclass(frozen=True, kw_only=True)
class DARC(Hyperparameters):
    """Hyperparameters of DARC; the defaults are the paper's table."""

    actor_hidden: tuple[int, ...] = (400, 300)
    critic_hidden: tuple[int, ...] = (400, 300)
    learning_rate: float = 1e-3
    target_noise: float = 0.2
    """Standard deviation of the noise on the target's actions."""
    noise_clip: float = 0.5
    """That noise is clipped to plus or minus this."""
    nu: float = 0.1
    """Weight of the smaller of the two actors' values in the target, ν."""
    regularisation: float = 0.005
    """How strongly the two critics are drawn together, λ."""
    acting: Literal["own-critic", "best-of-four"] = "own-critic"
    """Choose the actor by its own critic as the authors' code, or by either critic as the pseudo-code."""

    def __post_init__(self) -> None:
        super().__post_init__()
        require(0 <= self.nu <= 1, f"nu must lie in [0, 1], not be {self.nu}.")


class State(NamedTuple):
    """What is learned; the leading axis of every array is the pair."""

    actors: Trained
    critics: Trained
    target_actors: Params
    target_critics: Params


def darc(config: DARC, spec: Spec) -> Algorithm[State]:
    """DARC for an environment."""
    actor = DeterministicActor(config.actor_hidden, spec.action_size)
    critic = config.critic()
    one_critic, two_critics = Ensemble(critic, 1, stacked=False), Ensemble(critic, 2, stacked=False)
    actor_optimiser = gradients.adam(config.rate("actor"))
    critic_optimiser = gradients.adam(config.rate("critic"))

    def init(key: Key) -> State:
        obs, action = jnp.zeros((1, spec.obs_size)), jnp.zeros((1, spec.action_size))

        def pair(key: Key) -> State:
            actor_key, critic_key = jax.random.split(key)
            actor_params, critic_params = actor.init(actor_key, obs), critic.init(critic_key, obs, action)
            return State(
                gradients.start(actor_params, actor_optimiser),
                gradients.start((critic_params,), critic_optimiser),
                target_actors=actor_params,
                target_critics=(critic_params,),
            )

        return jax.vmap(pair)(jax.random.split(key))

    def both(critics: Params) -> Params:
        return pick(critics, 0) + pick(critics, 1)

    def update(state: State, batch: Transition, tick: Tick, key: Key) -> tuple[State, Metrics]:
        noise_key, target_key, critic_key, actor_key = jax.random.split(key, 4)
        turn = tick.round % 2
        own, other = pick(state, turn), pick(state, 1 - turn)

        def value(k: int) -> Array:
            """v_k, what actor k would reach; called with the same keys for both."""
            next_action = actor.apply(pick(state.target_actors, k), batch.next_obs)
            next_action = gaussian_noise(next_action, config.target_noise, noise_key, config.noise_clip)
            next_q = two_critics(both(state.target_critics), batch.next_obs, next_action, key=target_key)
            return targets.clipped_double(next_q)

        y = targets.bellman(batch, targets.weighted_extremes(jnp.stack([value(0), value(1)]), config.nu))
        other_q = one_critic(other.critics.params, batch.obs, batch.action)

        def error(q: Array) -> Array:
            return losses.squared_error(q, y) + config.regularisation * losses.squared_error(q, other_q)

        critics, critic_metrics = regress(one_critic, own.critics, critic_optimiser, batch, error, critic_key)

        def actor_loss(params: Params) -> tuple[Array, Metrics]:
            value = -one_critic(critics.params, batch.obs, actor.apply(params, batch.obs), key=actor_key).mean()
            return value, {"actor_loss": value}

        actors, actor_metrics = gradients.descend(own.actors, actor_loss, actor_optimiser)

        learned = State(
            actors,
            critics,
            target_actors=targets.soft_update(own.target_actors, actors.params, config.tau),
            target_critics=targets.soft_update(own.target_critics, critics.params, config.tau),
        )
        return put(state, turn, learned), critic_metrics | actor_metrics

    def choices(state: State, obs: Array | np.ndarray) -> tuple[Array, Array]:
        """What each actor would do, actors first, and what each critic thinks of it, (actors, critics, batch)."""
        actions = jnp.stack([actor.apply(pick(state.actors.params, k), obs) for k in (0, 1)])
        critics = both(state.critics.params)
        return actions, jnp.stack([two_critics(critics, jnp.asarray(obs), action) for action in actions])

    def exploit(state: State, obs: Array | np.ndarray) -> Array:
        actions, q = choices(state, obs)
        worth = q.max(axis=1) if config.acting == "best-of-four" else jnp.stack([q[0, 0], q[1, 1]])
        return jnp.where((worth[1] > worth[0])[:, None], actions[1], actions[0])

    def explore(state: State, obs: Array | np.ndarray, step: Array, key: Key) -> Array:
        return gaussian_noise(exploit(state, obs), config.exploration_noise, key)

    def appraise(state: State, obs: Array | np.ndarray, key: Key) -> Appraisal:
        action = exploit(state, obs)
        q = two_critics(both(state.critics.params), jnp.asarray(obs), action).mean(axis=0)
        return Appraisal(action, q, jnp.zeros_like(q), jnp.zeros(()))

    return Algorithm(init, explore, exploit, update, appraise, rounds=2)


def pick(tree: Any, index: Array | int) -> Any:
    """One pair out of both."""
    return jax.tree.map(lambda leaf: leaf[index], tree)


def put(tree: Any, index: Array, one: Any) -> Any:
    """Both pairs, with one of them replaced."""
    return jax.tree.map(lambda leaf, new: leaf.at[index].set(new), tree, one)
