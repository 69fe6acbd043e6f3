"""One update of SAC in float64 NumPy with normalised or residual networks, AdamW and projection to unit norm.

A network is the flat list of its arrays in the order of JAX's leaves: first all dense layers (bias, kernel), then all
LayerNorms (bias, scale). How many there are tells the kind: none are plain networks, one for every dense layer but the
first normalised ones, and one for every second dense layer residual ones.
"""

from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
import numpy_reference as reference
from numpy_reference import Adam, Batch, Floats, Metrics, Network, State, draw, move_targets, temperature_loss


@dataclass(frozen=True)
class Settings(reference.Settings):
    """What is switched on."""

    decay: float = 0.0  # of AdamW
    projects: bool = False


class Step(NamedTuple):
    """What the gradient of a dense layer needs."""

    inputs: Floats  # of the kernel
    has_relu: bool
    closes: bool  # a residual block
    normal: Floats | None  # normalised, before scale and shift
    deviation: Floats | None
    kink: float  # the smallest |input| of its ReLU


def parts(network: Network) -> tuple[list[tuple[Floats, Floats]], list[tuple[Floats, Floats] | None], bool]:
    """The dense layers, the LayerNorm before each, and whether the network is residual."""
    count = sum(array.ndim == 2 for array in network)
    dense = list(zip(network[0 : 2 * count : 2], network[1 : 2 * count : 2], strict=True))
    norms = list(zip(network[2 * count :: 2], network[2 * count + 1 :: 2], strict=True))
    is_residual = 2 * len(norms) == count
    places = range(1, count, 2) if is_residual else range(1, len(norms) + 1)
    before: list[tuple[Floats, Floats] | None] = [None] * count
    for place, norm in zip(places, norms, strict=True):
        before[place] = norm
    return dense, before, is_residual


def forward(network: Network, x: Floats) -> tuple[Floats, list[Step]]:
    """Layer by layer: s ← W f(s) + b, with f as `smrl/kernels/dense.py` describes it."""
    dense, norms, is_residual = parts(network)
    tape: list[Step] = []
    streams: list[Floats] = []
    for index, (bias, kernel) in enumerate(dense):
        streams.append(x)
        normal, deviation, norm = None, None, norms[index]
        if norm is not None:
            deviation = np.sqrt(x.var(axis=1, keepdims=True) + 1e-5)
            normal = (x - x.mean(axis=1, keepdims=True)) / deviation
            x = normal * norm[1] + norm[0]
        has_relu = index > 0 and not (is_residual and norm is not None)
        kink = float(np.abs(x).min()) if has_relu else np.inf
        inputs = np.maximum(x, 0.0) if has_relu else x
        closes = is_residual and has_relu
        x = inputs @ kernel + bias + (streams[index - 1] if closes else 0.0)
        tape.append(Step(inputs, has_relu, closes, normal, deviation, kink))
    return x, tape


def backward(network: Network, tape: list[Step], slope: Floats) -> tuple[Network, Floats]:
    """From ∂L/∂output, the gradient of every array and ∂L/∂input."""
    dense, norms, _ = parts(network)
    by_dense, by_norms = Network(), Network()
    around: dict[int, Floats] = {}  # layer → what reaches its input around the block that it opens
    for index in reversed(range(len(dense))):
        step, norm = tape[index], norms[index]
        if step.closes:
            around[index - 1] = slope
        by_dense = [slope.sum(axis=0), step.inputs.T @ slope, *by_dense]
        slope = slope @ dense[index][1].T
        slope = slope * (step.inputs > 0.0) if step.has_relu else slope
        if norm is not None and step.normal is not None and step.deviation is not None:
            by_norms = [slope.sum(axis=0), (slope * step.normal).sum(axis=0), *by_norms]
            g = slope * norm[1]
            along = (g * step.normal).mean(axis=1, keepdims=True)
            slope = (g - g.mean(axis=1, keepdims=True) - step.normal * along) / step.deviation
        slope = slope + around.get(index, 0.0)
    return by_dense + by_norms, slope


def joined(obs: Floats, action: Floats) -> Floats:
    return np.concatenate([obs, action], axis=1)


def q_values(critics: list[Network], obs: Floats, action: Floats) -> Floats:
    """Q of every critic, (critics, batch)."""
    return np.stack([forward(critic, joined(obs, action))[0][:, 0] for critic in critics])


def optimise(adam: Adam, gradient: Network, rate: float, settings: Settings, projects: bool = False) -> Adam:
    """θ ← θ − η (m̂ / (√v̂ + ε) + λ θ); with projection, the columns of all kernels but the last then have norm 1."""
    moved = reference.step_adam(adam, gradient, rate)
    values = [new - rate * settings.decay * old for new, old in zip(moved.values, adam.values, strict=True)]
    if projects:
        *hidden, _ = [index for index, w in enumerate(values) if w.ndim == 2]
        values = [w / np.linalg.norm(w, axis=0) if index in hidden else w for index, w in enumerate(values)]
    return replace(moved, values=values)


def actor_pass(
    actor: Network, critics: list[Network], obs: Floats, noise: Floats, alpha: float
) -> tuple[float, Network, Floats]:
    """Mean (α log π − min_i Q_i(s, a)), its gradient, and log π; see `numpy_reference.soft_actor_loss`."""
    output, tape = forward(actor, obs)
    sample = draw(output, noise)
    q, slopes = [], []
    for critic in critics:
        value, critic_tape = forward(critic, joined(obs, sample.action))
        q.append(value[:, 0])
        slopes.append(backward(critic, critic_tape, np.ones_like(value))[1][:, obs.shape[1] :])
    which, rows = np.argmin(q, axis=0), np.arange(len(obs))
    lowest, slope = np.stack(q)[which, rows], np.stack(slopes)[which, rows]
    by_u = alpha * 2.0 * sample.action - slope * (1.0 - sample.action**2)
    by_raw = (by_u * sample.std * noise - alpha) * sample.free
    gradient, _ = backward(actor, tape, np.concatenate([by_u, by_raw], axis=1) / len(obs))
    return float(np.mean(alpha * sample.log_prob - lowest)), gradient, sample.log_prob


def sac(state: State, batch: Batch, noise: list[Floats], step: int, settings: Settings) -> tuple[State, Metrics]:
    """As `numpy_reference.sac`, with these networks and steps."""
    log_alpha = state.log_alpha.values[0]
    alpha = float(np.exp(log_alpha))
    after = draw(forward(state.actor.values, batch.next_obs)[0], noise[0])
    lowest = q_values(state.target_critics, batch.next_obs, after.action).min(axis=0)
    y = batch.reward + batch.discount * (lowest - alpha * after.log_prob)
    critics, losses, values = [], [], []
    for critic in state.critics:
        output, tape = forward(critic.values, joined(batch.obs, batch.action))
        q = output[:, 0]
        gradient, _ = backward(critic.values, tape, 2.0 * (q - y)[:, None] / len(y))
        critics.append(optimise(critic, gradient, settings.critic_learning_rate, settings, settings.projects))
        losses.append(float(np.mean((q - y) ** 2)))
        values.append(q)
    networks = [critic.values for critic in critics]
    actor_loss, by_actor, log_prob = actor_pass(state.actor.values, networks, batch.obs, noise[1], alpha)
    target_entropy = -0.5 * batch.action.shape[1] if settings.target_entropy is None else settings.target_entropy
    _, by_log_alpha = temperature_loss(log_alpha, log_prob, target_entropy)
    state = replace(
        state,
        critics=critics,
        actor=optimise(state.actor, by_actor, settings.actor_learning_rate, settings),
        log_alpha=reference.step_adam(state.log_alpha, by_log_alpha, settings.temperature_learning_rate),
    )
    metrics = {"critic_loss": sum(losses), "q": float(np.mean(values)), "actor_loss": actor_loss}
    metrics |= {"entropy": float(-np.mean(log_prob)), "alpha": alpha}
    return move_targets(state, settings.tau), metrics


def nearest_branch(state: State, batch: Batch, noise: list[Floats], step: int, settings: Settings) -> float:
    """The smallest |input| of a ReLU that a gradient goes through, or difference of the critics relative to Q."""
    after, _ = sac(state, batch, noise, step, settings)
    output, tape = forward(state.actor.values, batch.obs)
    action, new = draw(output, noise[1]).action, [critic.values for critic in after.critics]
    tapes = [tape, *(forward(critic.values, joined(batch.obs, batch.action))[1] for critic in state.critics)]
    tapes += [forward(critic, joined(batch.obs, action))[1] for critic in new]
    q = np.sort(q_values(new, batch.obs, action), axis=0)
    tie = float((q[1] - q[0]).min() / np.abs(q).max())
    return min(tie, *(step.kink for one in tapes for step in one))
