"""One update of DDPG, TD3 and SAC in float64 NumPy, with gradients by hand; nothing here imports JAX or smrl.

A network is the flat list of its arrays, first layer first, bias before kernel (the order of JAX's leaves).
Every loss returns its value, then its gradient in the shape of what it is a function of.
"""

from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Network = list[Floats]
Metrics = dict[str, float]


class Batch(NamedTuple):
    """Transitions; the discount is γⁿ (1 − d)."""

    obs: Floats
    action: Floats
    reward: Floats
    discount: Floats
    next_obs: Floats


@dataclass(frozen=True)
class Settings:
    """Hyperparameters; the defaults are the published table."""

    actor_learning_rate: float = 3e-4
    critic_learning_rate: float = 3e-4
    temperature_learning_rate: float = 3e-4
    tau: float = 0.005
    target_noise: float = 0.2
    noise_clip: float = 0.5
    delay: int = 1
    target_entropy: float | None = None  # None: minus the number of action dimensions


@dataclass(frozen=True)
class Adam:
    """Parameters and Adam's memory of their gradients; after no step at all, of nothing."""

    values: Network = field(default_factory=list)
    mu: Network = field(default_factory=list)
    nu: Network = field(default_factory=list)
    count: int = 0


@dataclass(frozen=True)
class State:
    """What is learned. One Adam per critic is one Adam over all of them, for Adam works element by element."""

    actor: Adam
    critics: list[Adam]
    target_critics: list[Network]
    target_actor: Network = field(default_factory=list)  # none in SAC
    log_alpha: Adam = field(default_factory=Adam)  # SAC only


def forward(network: Network, x: Floats) -> tuple[Floats, list[Floats]]:
    """The output of linear layers with ReLU between them, and the input of each layer."""
    inputs: list[Floats] = []
    for bias, kernel in zip(network[0::2], network[1::2], strict=True):
        x = np.maximum(x, 0.0) if inputs else x
        inputs.append(x)
        x = x @ kernel + bias
    return x, inputs


def nearest_kink(network: Network, x: Floats) -> float:
    """The smallest |input| of a ReLU: nearer than rounding, float32 may see the other side of the kink."""
    _, inputs = forward(network, x)
    layers = zip(network[0:-2:2], network[1:-2:2], inputs[:-1], strict=True)
    return min(float(np.abs(x @ kernel + bias).min()) for bias, kernel, x in layers)


def backward(network: Network, inputs: list[Floats], slope: Floats) -> tuple[Network, Floats]:
    """From ∂L/∂output, the gradient of every array and ∂L/∂input."""
    gradient: Network = []
    for layer in reversed(range(len(inputs))):
        x, kernel = inputs[layer], network[2 * layer + 1]
        gradient = [slope.sum(axis=0), x.T @ slope, *gradient]
        slope = slope @ kernel.T
        slope = slope * (x > 0.0) if layer else slope  # what the layers above the first see went through ReLU
    return gradient, slope


def step_adam(adam: Adam, gradient: Network, rate: float) -> Adam:
    """θ ← θ − rate · m̂ / (√v̂ + ε), β = (0.9, 0.999), ε = 1e-8, both moments corrected for their zero start."""
    count = adam.count + 1
    mu = [0.9 * m + 0.1 * g for m, g in zip(adam.mu, gradient, strict=True)]
    nu = [0.999 * v + 0.001 * g**2 for v, g in zip(adam.nu, gradient, strict=True)]
    first, second = 1.0 - 0.9**count, 1.0 - 0.999**count
    change = [rate * (m / first) / (np.sqrt(v / second) + 1e-8) for m, v in zip(mu, nu, strict=True)]
    values = [value - step for value, step in zip(adam.values, change, strict=True)]
    return Adam(values, mu, nu, count)


def polyak_update(target: Network, online: Network, tau: float) -> Network:
    """θ′ ← τ θ + (1 − τ) θ′."""
    return [tau * new + (1.0 - tau) * old for old, new in zip(target, online, strict=True)]


def q_value(critic: Network, obs: Floats, action: Floats) -> tuple[Floats, list[Floats]]:
    """Q(s, a) of every transition, and the inputs of the layers."""
    q, inputs = forward(critic, np.concatenate([obs, action], axis=1))
    return q[:, 0], inputs


def q_slope(critic: Network, obs: Floats, action: Floats) -> tuple[Floats, Floats]:
    """Q(s, a) and ∂Q/∂a of every transition."""
    q, inputs = q_value(critic, obs, action)
    _, slope = backward(critic, inputs, np.ones((len(q), 1)))
    return q, slope[:, obs.shape[1] :]


def smallest_q_slope(critics: list[Network], obs: Floats, action: Floats) -> tuple[Floats, Floats]:
    """min_i Q_i(s, a) and its ∂/∂a, which is that of the smaller critic."""
    pairs = [q_slope(critic, obs, action) for critic in critics]
    q, slope = np.stack([pair[0] for pair in pairs]), np.stack([pair[1] for pair in pairs])
    which, rows = q.argmin(axis=0), np.arange(len(obs))
    return q[which, rows], slope[which, rows]


def smallest_q(critics: list[Network], obs: Floats, action: Floats) -> Floats:
    """min_i Q_i(s, a)."""
    return np.min([q_value(critic, obs, action)[0] for critic in critics], axis=0)


def critic_loss(critic: Network, batch: Batch, y: Floats) -> tuple[float, Network, Floats]:
    """Mean (Q(s, a) − y)²; the third is Q."""
    q, inputs = q_value(critic, batch.obs, batch.action)
    gradient, _ = backward(critic, inputs, 2.0 * (q - y)[:, None] / len(y))
    return float(np.mean((q - y) ** 2)), gradient, q


def deterministic_actor_loss(actor: Network, critic: Network, obs: Floats) -> tuple[float, Network]:
    """−mean Q(s, tanh f(s))."""
    output, inputs = forward(actor, obs)
    action = np.tanh(output)
    q, slope = q_slope(critic, obs, action)
    gradient, _ = backward(actor, inputs, -slope * (1.0 - action**2) / len(obs))
    return float(-np.mean(q)), gradient


class Sample(NamedTuple):
    """A draw from the tanh-Gaussian, with what its gradient needs."""

    action: Floats
    log_prob: Floats
    std: Floats
    free: npt.NDArray[np.bool_]  # where log std is not clamped


def draw(output: Floats, noise: Floats) -> Sample:
    """a = tanh(u), u = mean + std · noise, log std clamped to [−20, 2].

    log π = Σ log N(u) − 2 (log 2 − u − softplus(−2u)).
    """
    mean, raw = np.split(output, 2, axis=1)
    log_std = np.minimum(np.maximum(raw, -20.0), 2.0)
    u = mean + np.exp(log_std) * noise
    log_normal = -0.5 * noise**2 - log_std - 0.5 * np.log(2.0 * np.pi)
    log_slope = 2.0 * (np.log(2.0) - u - np.logaddexp(0.0, -2.0 * u))
    log_prob = (log_normal - log_slope).sum(axis=1)
    return Sample(np.tanh(u), log_prob, np.exp(log_std), (raw > -20.0) & (raw < 2.0))


def soft_actor_loss(
    actor: Network, critics: list[Network], obs: Floats, noise: Floats, alpha: float
) -> tuple[float, Network, Floats]:
    """Mean (α log π − min_i Q_i(s, a)); the third is log π.

    ∂ log π/∂u = 2 tanh u at fixed noise; log std moves u by std · noise, and log π by −1 besides.
    """
    output, inputs = forward(actor, obs)
    sample = draw(output, noise)
    q, slope = smallest_q_slope(critics, obs, sample.action)
    by_u = alpha * 2.0 * sample.action - slope * (1.0 - sample.action**2)
    by_raw = (by_u * sample.std * noise - alpha) * sample.free
    gradient, _ = backward(actor, inputs, np.concatenate([by_u, by_raw], axis=1) / len(obs))
    return float(np.mean(alpha * sample.log_prob - q)), gradient, sample.log_prob


def temperature_loss(log_alpha: Floats, log_prob: Floats, target_entropy: float) -> tuple[float, Network]:
    """−α mean (log π + H̄), α = exp(log α): its own derivative by log α."""
    value = -np.exp(log_alpha) * np.mean(log_prob + target_entropy)
    return float(value), [np.asarray(value)]


def step_critics(state: State, batch: Batch, value: Floats, rate: float) -> tuple[State, Metrics]:
    """Every critic towards y = r + γⁿ (1 − d) V(s′); reports the sum of the losses and the mean Q before."""
    y = batch.reward + batch.discount * value
    losses = [critic_loss(critic.values, batch, y) for critic in state.critics]
    critics = [step_adam(critic, loss[1], rate) for critic, loss in zip(state.critics, losses, strict=True)]
    metrics = {
        "critic_loss": sum(loss[0] for loss in losses),
        "q": float(np.mean([loss[2] for loss in losses])),
    }
    return replace(state, critics=critics), metrics


def move_targets(state: State, tau: float) -> State:
    """The soft update of all targets that there are."""
    pairs = zip(state.target_critics, state.critics, strict=True)
    critics = [polyak_update(target, critic.values, tau) for target, critic in pairs]
    actor = polyak_update(state.target_actor, state.actor.values, tau) if state.target_actor else []
    return replace(state, target_critics=critics, target_actor=actor)


def step_deterministic_actor(state: State, batch: Batch, rate: float) -> tuple[State, float]:
    """The actor up the first critic as it now is."""
    value, gradient = deterministic_actor_loss(state.actor.values, state.critics[0].values, batch.obs)
    return replace(state, actor=step_adam(state.actor, gradient, rate)), value


def ddpg(state: State, batch: Batch, noise: list[Floats], step: int, settings: Settings) -> tuple[State, Metrics]:
    """Critic, then actor under the new critic, then both targets."""
    next_action = np.tanh(forward(state.target_actor, batch.next_obs)[0])
    value = smallest_q(state.target_critics, batch.next_obs, next_action)  # of one
    state, metrics = step_critics(state, batch, value, settings.critic_learning_rate)
    state, loss = step_deterministic_actor(state, batch, settings.actor_learning_rate)
    return move_targets(state, settings.tau), metrics | {"actor_loss": loss}


def smooth(action: Floats, noise: Floats, settings: Settings) -> Floats:
    """TD3's target smoothing: clipped noise on the action, and the sum clipped to ±1."""
    clipped = np.clip(settings.target_noise * noise, -settings.noise_clip, settings.noise_clip)
    return np.clip(action + clipped, -1.0, 1.0)


def td3(state: State, batch: Batch, noise: list[Floats], step: int, settings: Settings) -> tuple[State, Metrics]:
    """Critics always; the actor and all targets only at every ``delay``-th environment step."""
    next_action = np.tanh(forward(state.target_actor, batch.next_obs)[0])
    next_action = smooth(next_action, noise[0], settings)
    value = smallest_q(state.target_critics, batch.next_obs, next_action)
    state, metrics = step_critics(state, batch, value, settings.critic_learning_rate)
    if step % settings.delay != 0:
        return state, metrics | {"actor_loss": np.nan}
    state, loss = step_deterministic_actor(state, batch, settings.actor_learning_rate)
    return move_targets(state, settings.tau), metrics | {"actor_loss": loss}


def sac(state: State, batch: Batch, noise: list[Floats], step: int, settings: Settings) -> tuple[State, Metrics]:
    """Critics, actor under the new critics, temperature by the same log π, targets; α is that from before.

    The actor and the temperature only at every ``delay``-th learning step.
    """
    log_alpha = state.log_alpha.values[0]
    alpha = float(np.exp(log_alpha))
    after = draw(forward(state.actor.values, batch.next_obs)[0], noise[0])
    value = smallest_q(state.target_critics, batch.next_obs, after.action) - alpha * after.log_prob
    state, metrics = step_critics(state, batch, value, settings.critic_learning_rate)
    if step % settings.delay != 0:
        return move_targets(state, settings.tau), metrics | {"actor_loss": np.nan, "entropy": np.nan, "alpha": alpha}

    critics = [critic.values for critic in state.critics]
    loss, gradient, log_prob = soft_actor_loss(state.actor.values, critics, batch.obs, noise[1], alpha)
    actor = step_adam(state.actor, gradient, settings.actor_learning_rate)

    size = batch.action.shape[1]
    target_entropy = -float(size) if settings.target_entropy is None else settings.target_entropy
    _, gradient = temperature_loss(log_alpha, log_prob, target_entropy)
    temperature = step_adam(state.log_alpha, gradient, settings.temperature_learning_rate)

    state = move_targets(replace(state, actor=actor, log_alpha=temperature), settings.tau)
    return state, metrics | {"actor_loss": loss, "entropy": float(-np.mean(log_prob)), "alpha": alpha}
