"""Put reuse around your own JAX update: a small DQN on CartPole with M = 1 and M = 10. Takes half a minute.

Run: python examples/reuse.py

Only `smrl.reuse` is used; environment, replay memory, networks and optimiser are this program's.
"""

from typing import Any, NamedTuple

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
import optax

import smrl

GAMMA, TAU, BATCH, EPSILON = 0.99, 0.02, 64, 0.1
ADAM = optax.adam(1e-3)


class State(NamedTuple):
    """Parameters of Q and of its target network, and the optimiser."""

    params: Any
    target: Any
    optimiser: Any


def init(key: Any, sizes: tuple[int, ...] = (4, 64, 64, 2)) -> State:
    """Return new networks; a layer is a pair of weights and bias."""
    keys = jax.random.split(key, len(sizes) - 1)
    params = [
        (jax.random.normal(key, (rows, columns)) / np.sqrt(rows), jnp.zeros(columns))
        for key, rows, columns in zip(keys, sizes[:-1], sizes[1:], strict=True)
    ]
    return State(params, jax.tree.map(jnp.copy, params), ADAM.init(params))


def q_values(params: Any, obs: Any) -> Any:
    """Return Q(s, ·), (batch, actions)."""
    *hidden, (weights, bias) = params
    for layer in hidden:
        obs = jax.nn.relu(obs @ layer[0] + layer[1])
    return obs @ weights + bias


def update(state: State, batch: Any, key: Any) -> tuple[State, dict[str, Any]]:
    """Make one update of Q on one batch: an ordinary function that knows nothing of reuse."""
    obs, action, reward, terminated, next_obs = batch
    y = reward + GAMMA * (1 - terminated) * q_values(state.target, next_obs).max(axis=1)

    def loss(params: Any) -> Any:  # mean (Q(s, a) − y)²
        q = jnp.take_along_axis(q_values(params, obs), action[:, None], axis=1)[:, 0]
        return ((q - y) ** 2).mean()

    value, gradient = jax.value_and_grad(loss)(state.params)
    change, optimiser = ADAM.update(gradient, state.optimiser)
    params = optax.apply_updates(state.params, change)
    target = optax.incremental_update(params, state.target, TAU)
    return State(params, target, optimiser), {"loss": value}


def train(times: int, steps: int = 2_000, warmup: int = 200, seed: int = 0) -> list[float]:
    """Train with ``times`` updates per batch, one batch per step; return the returns of the episodes."""
    env = gymnasium.make("CartPole-v1")
    rng = np.random.default_rng(seed)
    learn = smrl.reuse(update, times)  # the only line that is about reuse
    greedy = jax.jit(lambda params, obs: q_values(params, obs).argmax())
    state = init(jax.random.key(seed))
    memory: list[tuple[Any, ...]] = []
    returns, total = [], 0.0
    obs, _ = env.reset(seed=seed)
    for step in range(steps):
        explore = step < warmup or rng.random() < EPSILON
        action = int(rng.integers(2)) if explore else int(greedy(state.params, obs))
        next_obs, reward, terminated, truncated, _ = env.step(action)
        memory.append((obs, action, np.float32(reward), np.float32(terminated), next_obs))
        obs, total = next_obs, total + float(reward)
        if terminated or truncated:
            returns.append(total)
            (obs, _), total = env.reset(), 0.0
        if step >= warmup:
            drawn = [memory[index] for index in rng.integers(len(memory), size=BATCH)]
            batch = tuple(np.stack(column) for column in zip(*drawn, strict=True))
            state, _ = learn(state, batch, jax.random.key(step))
    env.close()
    return returns


def main(steps: int = 2_000) -> dict[int, float]:
    """Print the mean return of all episodes with M = 1 and with M = 10."""
    results = {times: float(np.mean(train(times, steps))) for times in (1, 10)}
    for times, result in results.items():
        print(f"M = {times:>2}: the episodes of {steps:,} steps have a mean return of {result:.0f}")
    return results


if __name__ == "__main__":
    main()
