"""Write your own algorithm: double DQN, which smrl then trains as its own. Takes about a minute.

Run: python examples/algorithm.py. On the command line, in the folder examples, hyperparameters are flags:

    smrl train algorithm:double_dqn CartPole-v1 --reuse 10 --steps 3000 --warmup 500 --eval-every 500 --hidden 64
    smrl compare algorithm:double_dqn dqn CartPole-v1 --reuse 1 10 --steps 3000

The update knows neither M nor the replay memory. docs/extend.md explains every function.
"""

from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax
from flax import linen as nn

import smrl
from smrl.types import Algorithm, Discrete, Spec, Transition, UpdateContext


@dataclass(frozen=True)
class DoubleDQN:
    """Hyperparameters of double DQN."""

    hidden: int = 64
    """Units of each of the two hidden layers."""
    learning_rate: float = 1e-3
    """Learning rate of Adam."""
    tau: float = 0.02
    """Weight of the network in every update of its target network."""
    epsilon: float = 0.1
    """Probability of a random action."""


class State(NamedTuple):
    """The network with its optimiser, and the target network."""

    critic: Any
    optimiser: Any
    target_critic: Any


def double_dqn(config: DoubleDQN, spec: Spec) -> Algorithm[State]:
    """Q-learning whose target network values the action that the network chooses (van Hasselt et al., 2016)."""
    if not isinstance(spec.action, Discrete):
        raise smrl.SmrlError(f"double_dqn needs discrete actions, but there are {spec.action}.")
    count = spec.action.count
    network = nn.Sequential([nn.Dense(config.hidden), nn.relu, nn.Dense(config.hidden), nn.relu, nn.Dense(count)])
    adam = optax.adam(config.learning_rate)

    def init(key: Any) -> State:
        params = network.init(key, spec.example().obs)
        return State(params, adam.init(params), params)

    def update(state: State, batch: Transition, context: UpdateContext, key: Any) -> tuple[State, dict[str, Any]]:
        def value(params: Any, obs: Any, action: Any) -> Any:
            return jnp.take_along_axis(network.apply(params, obs), action[:, None], axis=1)[:, 0]

        # y = r + γ (1 − d) Q′(s′, arg max_a Q(s′, a)); batch.discount is γ (1 − d)
        next_action = network.apply(state.critic, batch.next_obs).argmax(axis=1)
        y = batch.reward + batch.discount * value(state.target_critic, batch.next_obs, next_action)

        def loss(params: Any) -> tuple[Any, Any]:  # mean (Q(s, a) − y)²
            q = value(params, batch.obs, batch.action)
            return ((q - y) ** 2).mean(), q.mean()

        (error, q), gradient = jax.value_and_grad(loss, has_aux=True)(state.critic)
        change, optimiser = adam.update(gradient, state.optimiser)
        params = optax.apply_updates(state.critic, change)
        target = optax.incremental_update(params, state.target_critic, config.tau)
        return State(params, optimiser, target), {"critic_loss": error, "q": q}

    def exploit(params: Any, obs: Any) -> Any:
        return network.apply(params, obs).argmax(axis=1)

    def explore(params: Any, obs: Any, step: Any, key: Any) -> Any:
        coin_key, action_key = jax.random.split(key)
        is_random = jax.random.uniform(coin_key, (len(obs),)) < config.epsilon
        return jnp.where(is_random, jax.random.randint(action_key, (len(obs),), 0, count), exploit(params, obs))

    return Algorithm(init, update, explore, exploit, policy_params=lambda state: state.critic)


def main(steps: int = 3_000) -> smrl.Run:
    """Register it under a short name and train it."""
    smrl.register("double_dqn", double_dqn)
    run = smrl.train("double_dqn", "CartPole-v1", reuse=10, steps=steps, warmup=500, eval_every=500)
    print(f"mean returns of the evaluations: {run.record.returns}")
    return run


if __name__ == "__main__":
    main()
