"""One update of DARC, TQC, REDQ and SAC with DroQ's critics in float64 NumPy, in the manner of ``numpy_reference``.

Every ``nearest_branch_…`` takes what the update takes, and tells how near one of its gradients is to a jump: nearer
than rounding, float32 may see the other side. Only what a gradient goes through can jump. Hence clipped actions,
minima and sorted atoms in a target do not count, being continuous; nor does the quantile Huber loss, whose derivative
is. What remains are ReLUs, the clamp of log std, and the smaller critic in DroQ's actor loss.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple, TypeVar

import numpy as np
import numpy_reference as reference
from numpy_reference import (
    Adam,
    Batch,
    Floats,
    Metrics,
    Network,
    Sample,
    State,
    backward,
    critic_loss,
    deterministic_actor_loss,
    draw,
    forward,
    move_targets,
    nearest_kink,
    polyak_update,
    q_value,
    smallest_q,
    smooth,
    step_adam,
    temperature_loss,
)

Score = Callable[[Floats], tuple[Floats, Floats]]  # actions → Q and ∂Q/∂a
T = TypeVar("T")


@dataclass(frozen=True)
class Settings(reference.Settings):
    """Hyperparameters; DARC's published rates are 1e-3, and ν, ``dropped`` and REDQ's target entropy vary by task."""

    nu: float = 0.1  # DARC's weight of the smaller value
    regularisation: float = 0.005  # DARC's λ
    dropped: int = 2  # TQC's atoms per critic
    huber: float = 1.0  # TQC's κ
    order: str = "critics-first"  # the steps of TQC and REDQ
    critic_loss: str = "sum"  # or the mean of the losses of REDQ's critics
    temperature_loss: str = "alpha"  # REDQ's; TQC's is always that of log α
    first_temperature: float | None = None  # REDQ's α before its first step
    log_prob_floor: float = 0.0  # ε in REDQ's log(1 − a² + ε)


def joined(obs: Floats, action: Floats) -> Floats:
    """What a critic sees."""
    return np.concatenate([obs, action], axis=1)


def put(items: list[T], index: int, item: T) -> list[T]:
    """The list with another item at the index."""
    return [*items[:index], item, *items[index + 1 :]]


def weighted_sum(networks: Sequence[Network], weights: Sequence[float]) -> Network:
    """Σ_k w_k θ_k, array by array."""
    same = zip(*networks, strict=True)
    return [sum((w * x for w, x in zip(weights, arrays, strict=True)), np.zeros(())) for arrays in same]


def values_of(adams: list[Adam]) -> list[Network]:
    """The networks without their optimisers."""
    return [adam.values for adam in adams]


def step_each(adams: list[Adam], gradients: list[Network], rate: float) -> list[Adam]:
    """Adam on every network."""
    return [step_adam(adam, gradient, rate) for adam, gradient in zip(adams, gradients, strict=True)]


# DARC


@dataclass(frozen=True)
class Pairs:
    """What DARC learns: two actors, each with a critic of its own, and their targets."""

    actors: list[Adam]
    critics: list[Adam]
    target_actors: list[Network]
    target_critics: list[Network]


def darc_value(state: Pairs, batch: Batch, noise: Floats, settings: Settings) -> Floats:
    """V = ν min_k v_k + (1 − ν) max_k v_k, where v_k = min_i Q′_i(s′, π′_k(s′) + noise), the noise the same."""
    actions = [smooth(np.tanh(forward(actor, batch.next_obs)[0]), noise, settings) for actor in state.target_actors]
    values = [smallest_q(state.target_critics, batch.next_obs, action) for action in actions]
    return settings.nu * np.min(values, axis=0) + (1.0 - settings.nu) * np.max(values, axis=0)


def regularised_critic_loss(
    critic: Network, other: Network, batch: Batch, y: Floats, weight: float
) -> tuple[float, Network, Floats]:
    """Mean (Q(s, a) − y)² + λ mean (Q(s, a) − Q_other(s, a))², the other a constant; the third is Q."""
    fit, gradient, q = critic_loss(critic, batch, y)
    gap, pull, _ = critic_loss(critic, batch, q_value(other, batch.obs, batch.action)[0])
    return fit + weight * gap, weighted_sum([gradient, pull], [1.0, weight]), q


def darc(
    state: Pairs, batch: Batch, noise: list[Floats], step: int, settings: Settings, pair: int
) -> tuple[Pairs, Metrics]:
    """Of one pair: the critic, the actor under the new critic, both targets; the other pair stays as it is."""
    y = batch.reward + batch.discount * darc_value(state, batch, noise[0], settings)
    old, other = state.critics[pair], state.critics[1 - pair]
    loss, gradient, q = regularised_critic_loss(old.values, other.values, batch, y, settings.regularisation)
    critic = step_adam(old, gradient, settings.critic_learning_rate)

    actor_loss, gradient = deterministic_actor_loss(state.actors[pair].values, critic.values, batch.obs)
    actor = step_adam(state.actors[pair], gradient, settings.actor_learning_rate)

    target_actor = polyak_update(state.target_actors[pair], actor.values, settings.tau)
    target_critic = polyak_update(state.target_critics[pair], critic.values, settings.tau)
    state = Pairs(
        actors=put(state.actors, pair, actor),
        critics=put(state.critics, pair, critic),
        target_actors=put(state.target_actors, pair, target_actor),
        target_critics=put(state.target_critics, pair, target_critic),
    )
    return state, {"critic_loss": loss, "q": float(np.mean(q)), "actor_loss": actor_loss}


def nearest_branch_darc(
    state: Pairs, batch: Batch, noise: list[Floats], step: int, settings: Settings, pair: int
) -> float:
    """The smallest |input| of a ReLU in the pair's actor and critic, and in its new critic at the actor's action."""
    after, _ = darc(state, batch, noise, step, settings, pair)
    actor = state.actors[pair].values
    action = np.tanh(forward(actor, batch.obs)[0])
    return min(
        nearest_kink(actor, batch.obs),
        nearest_kink(state.critics[pair].values, joined(batch.obs, batch.action)),
        nearest_kink(after.critics[pair].values, joined(batch.obs, action)),
    )


# What TQC, REDQ and DroQ share


def draw_of(floor: float, output: Floats, noise: Floats) -> Sample:
    """As ``draw``, but log π = Σ log N(u) − log(1 − a² + floor)."""
    sample = draw(output, noise)
    if floor == 0.0:
        return sample
    u = np.split(output, 2, axis=1)[0] + sample.std * noise
    log_normal = -0.5 * noise**2 - np.log(sample.std) - 0.5 * np.log(2.0 * np.pi)
    log_slope = np.log(np.cosh(u) ** -2.0 + floor)  # 1 − a² itself would cancel
    return sample._replace(log_prob=(log_normal - log_slope).sum(axis=1))


def log_prob_slope(floor: float, action: Floats) -> Floats:
    """∂ log π/∂u at fixed noise: 2a (1 − a²) / (1 − a² + floor)."""
    slope = 1.0 - action**2
    return 2.0 * action if floor == 0.0 else 2.0 * action * slope / (slope + floor)


def scored_actor_loss(
    actor: Network, score: Score, obs: Floats, noise: Floats, alpha: float, floor: float = 0.0
) -> tuple[float, Network, Floats]:
    """Mean (α log π − Q(s, a)) for whatever is made of the critics to score an action; the third is log π."""
    output, inputs = forward(actor, obs)
    sample = draw_of(floor, output, noise)
    q, slope = score(sample.action)
    by_u = alpha * log_prob_slope(floor, sample.action) - slope * (1.0 - sample.action**2)
    by_raw = (by_u * sample.std * noise - alpha) * sample.free
    gradient, _ = backward(actor, inputs, np.concatenate([by_u, by_raw], axis=1) / len(obs))
    return float(np.mean(alpha * sample.log_prob - q)), gradient, sample.log_prob


def mean_score(critics: list[Network], obs: Floats) -> Score:
    """The mean of all outputs of all critics, be they one Q each or many atoms."""

    def score(action: Floats) -> tuple[Floats, Floats]:
        outputs, slopes = [], []
        for critic in critics:
            output, inputs = forward(critic, joined(obs, action))
            _, slope = backward(critic, inputs, np.full_like(output, 1.0 / output.shape[1]))
            outputs.append(output.mean(axis=1))
            slopes.append(slope[:, obs.shape[1] :])
        return np.mean(outputs, axis=0), np.mean(slopes, axis=0)

    return score


def log_temperature_loss(log_alpha: Floats, log_prob: Floats, target_entropy: float) -> tuple[float, Network]:
    """−log α mean (log π + H̄)."""
    slope = -np.mean(log_prob + target_entropy)
    return float(log_alpha * slope), [np.asarray(slope)]


def target_entropy_of(settings: Settings, batch: Batch) -> float:
    """H̄, by default minus the number of action dimensions."""
    return -float(batch.action.shape[1]) if settings.target_entropy is None else settings.target_entropy


def nearest_soft_actor_branch(actor: Network, obs: Floats) -> float:
    """Of a ReLU, or of log std to an end of its clamp, relative to that end."""
    raw = np.split(forward(actor, obs)[0], 2, axis=1)[1]
    clamp = min(float(np.abs(raw / end - 1.0).min()) for end in (-20.0, 2.0))
    return min(clamp, nearest_kink(actor, obs))


def nearest_soft_branch(state: State, scoring: list[Adam], batch: Batch, noise: Floats) -> float:
    """The same, and of the ReLUs of the critics at (s, a) and of those that score the actor's action."""
    actor = state.actor.values
    drawn = joined(batch.obs, draw(forward(actor, batch.obs)[0], noise).action)
    seen = joined(batch.obs, batch.action)
    kinks = [nearest_kink(critic, seen) for critic in values_of(state.critics)]
    kinks += [nearest_kink(critic, drawn) for critic in values_of(scoring)]
    return min(nearest_soft_actor_branch(actor, batch.obs), *kinks)


# TQC


def truncated_atoms(critics: list[Network], obs: Floats, action: Floats, dropped: int) -> Floats:
    """All atoms of all critics in ascending order, but for the largest, ``dropped`` for each critic."""
    pooled = np.concatenate([forward(critic, joined(obs, action))[0] for critic in critics], axis=1)
    return np.sort(pooled, axis=1)[:, : pooled.shape[1] - dropped * len(critics)]


def quantile_huber_loss(critic: Network, batch: Batch, y: Floats, kappa: float = 1.0) -> tuple[float, Network, Floats]:
    """Mean |τ_j − 1[δ < 0]| H(δ) over transitions, atoms j and targets i; the third are the atoms.

    δ = y_i − z_j; τ_j = (2j + 1) / 2n; H is δ²/2 within ±κ and κ (|δ| − κ/2) beyond: its slope is δ clipped to ±κ.
    """
    atoms, inputs = forward(critic, joined(batch.obs, batch.action))
    count = atoms.shape[1]
    fractions = (2.0 * np.arange(count) + 1.0) / (2.0 * count)
    delta = y[:, None, :] - atoms[:, :, None]
    weight = np.abs(fractions[None, :, None] - (delta < 0.0))
    huber = np.where(np.abs(delta) <= kappa, 0.5 * delta**2, kappa * (np.abs(delta) - 0.5 * kappa))
    slope = -(weight * np.clip(delta, -kappa, kappa)).sum(axis=2) / delta.size
    gradient, _ = backward(critic, inputs, slope)
    return float(np.mean(weight * huber)), gradient, atoms


def tqc(state: State, batch: Batch, noise: list[Floats], step: int, settings: Settings) -> tuple[State, Metrics]:
    """Critics, actor and temperature in the order of the settings, then the targets.

    Noise: of a′, of the actor, and where the actor goes first of the temperature before it.
    """
    if settings.order == "actor-first":
        sample = draw(forward(state.actor.values, batch.obs)[0], noise[2])
        state = step_tqc_temperature(state, sample.log_prob, batch, settings)
        alpha = float(np.exp(state.log_alpha.values[0]))
        state, actor_loss, log_prob = step_tqc_actor(state, state.critics, batch, noise[1], settings)
        state, critic_metrics = step_tqc_critics(state, batch, noise[0], settings)
    else:
        alpha = float(np.exp(state.log_alpha.values[0]))
        after, critic_metrics = step_tqc_critics(state, batch, noise[0], settings)
        scoring = after.critics if settings.order == "critics-first" else state.critics
        state, actor_loss, log_prob = step_tqc_actor(after, scoring, batch, noise[1], settings)
        state = step_tqc_temperature(state, log_prob, batch, settings)
    metrics = {"actor_loss": actor_loss, "entropy": float(-np.mean(log_prob)), "alpha": alpha}
    return move_targets(state, settings.tau), critic_metrics | metrics


def step_tqc_critics(state: State, batch: Batch, noise: Floats, settings: Settings) -> tuple[State, Metrics]:
    """All critics towards the truncated atoms of their targets."""
    critics, alpha = values_of(state.critics), float(np.exp(state.log_alpha.values[0]))
    after = draw(forward(state.actor.values, batch.next_obs)[0], noise)
    atoms = truncated_atoms(state.target_critics, batch.next_obs, after.action, settings.dropped)
    y = batch.reward[:, None] + batch.discount[:, None] * (atoms - alpha * after.log_prob[:, None])
    losses = [quantile_huber_loss(critic, batch, y, settings.huber) for critic in critics]  # the loss is their mean
    gradients = [weighted_sum([loss[1]], [1.0 / len(critics)]) for loss in losses]
    metrics = {
        "critic_loss": float(np.mean([loss[0] for loss in losses])),
        "q": float(np.mean([loss[2] for loss in losses])),
    }
    return replace(state, critics=step_each(state.critics, gradients, settings.critic_learning_rate)), metrics


def step_tqc_actor(
    state: State, scoring: list[Adam], batch: Batch, noise: Floats, settings: Settings
) -> tuple[State, float, Floats]:
    """The actor up the mean of all atoms of the critics that score; its loss and log π."""
    score, alpha = mean_score(values_of(scoring), batch.obs), float(np.exp(state.log_alpha.values[0]))
    loss, gradient, log_prob = scored_actor_loss(state.actor.values, score, batch.obs, noise, alpha)
    return replace(state, actor=step_adam(state.actor, gradient, settings.actor_learning_rate)), loss, log_prob


def step_tqc_temperature(state: State, log_prob: Floats, batch: Batch, settings: Settings) -> State:
    """log α by the loss with log α."""
    _, gradient = log_temperature_loss(state.log_alpha.values[0], log_prob, target_entropy_of(settings, batch))
    return replace(state, log_alpha=step_adam(state.log_alpha, gradient, settings.temperature_learning_rate))


def nearest_branch_tqc(state: State, batch: Batch, noise: list[Floats], step: int, settings: Settings) -> float:
    """Of a ReLU, where the critics that score may be the new ones."""
    after, _ = tqc(state, batch, noise, step, settings)
    scoring = after.critics if settings.order == "critics-first" else state.critics
    return nearest_soft_branch(state, scoring, batch, noise[1])


# REDQ


def redq_alpha(state: State, first: float | None) -> float:
    """α; where a first temperature is given, that one until log α has made its first step."""
    if first is not None and state.log_alpha.count == 0:
        return first
    return float(np.exp(state.log_alpha.values[0]))


def step_redq_policy(
    state: State, scoring: list[Adam], batch: Batch, noise: Floats, settings: Settings
) -> tuple[Adam, Adam, float]:
    """The actor up the mean of all critics, log α by its loss, both at the old α; and the actor's loss."""
    score, alpha = mean_score(values_of(scoring), batch.obs), redq_alpha(state, settings.first_temperature)
    actor_loss, by_actor, log_prob = scored_actor_loss(
        state.actor.values, score, batch.obs, noise, alpha, settings.log_prob_floor
    )
    loss = log_temperature_loss if settings.temperature_loss == "log-alpha" else temperature_loss
    _, by_log_alpha = loss(state.log_alpha.values[0], log_prob, target_entropy_of(settings, batch))
    actor = step_adam(state.actor, by_actor, settings.actor_learning_rate)
    return actor, step_adam(state.log_alpha, by_log_alpha, settings.temperature_learning_rate), actor_loss


def redq(
    state: State,
    batch: Batch,
    noise: list[Floats],
    step: int,
    settings: Settings,
    subset: Sequence[int],
    last_round: bool,
) -> tuple[State, Metrics]:
    """Critics towards the minimum of a subset, in the last round actor and temperature, targets always.

    The actor is scored by the new critics, or "together" by those from before. Noise: of a′, and in the last round of
    the actor.
    """
    alpha = redq_alpha(state, settings.first_temperature)
    after = draw_of(settings.log_prob_floor, forward(state.actor.values, batch.next_obs)[0], noise[0])
    lowest = smallest_q([state.target_critics[i] for i in subset], batch.next_obs, after.action)
    y = batch.reward + batch.discount * (lowest - alpha * after.log_prob)

    losses = [critic_loss(critic, batch, y) for critic in values_of(state.critics)]
    share = 1.0 if settings.critic_loss == "sum" else 1.0 / len(losses)
    gradients = [weighted_sum([loss[1]], [share]) for loss in losses]
    critics = step_each(state.critics, gradients, settings.critic_learning_rate)
    actor, log_alpha, actor_loss = state.actor, state.log_alpha, np.nan
    if last_round:
        scoring = state.critics if settings.order == "together" else critics
        actor, log_alpha, actor_loss = step_redq_policy(state, scoring, batch, noise[1], settings)

    state = replace(state, critics=critics, actor=actor, log_alpha=log_alpha)
    metrics = {
        "critic_loss": share * sum(loss[0] for loss in losses),
        "q": float(np.mean([loss[2] for loss in losses])),
        "actor_loss": actor_loss,
        "entropy": float(-np.mean(after.log_prob)),
        "alpha": alpha,
    }
    return move_targets(state, settings.tau), metrics


def nearest_branch_redq(
    state: State,
    batch: Batch,
    noise: list[Floats],
    step: int,
    settings: Settings,
    subset: Sequence[int],
    last_round: bool,
) -> float:
    """Of the critics alone before the last round.

    Not told by it: in float32 log(1 − a² + 1e-6) loses most of its digits where |a| is nearly 1.
    """
    if not last_round:
        return min(nearest_kink(critic, joined(batch.obs, batch.action)) for critic in values_of(state.critics))
    after, _ = redq(state, batch, noise, step, settings, subset, last_round)
    scoring = state.critics if settings.order == "together" else after.critics
    return nearest_soft_branch(state, scoring, batch, noise[1])


# DroQ: a hidden layer is linear → dropout → LayerNorm → ReLU. A network is still one flat list, so that Adam and
# targets need no more: first all linear layers (bias, kernel), then the LayerNorms of the hidden ones (bias, scale).

Masks = list[Floats]  # of a network one for every hidden layer, (batch, units), each 0 or 1 / (1 − rate)


class Block(NamedTuple):
    """The arrays of one hidden layer."""

    bias: Floats
    kernel: Floats
    shift: Floats  # LayerNorm's bias
    scale: Floats


class Tape(NamedTuple):
    """What the gradient of a forward pass needs, layer by layer."""

    inputs: list[Floats]  # of the linear layers, so one more than of the others
    normals: list[Floats]  # normalised, before scale and shift
    deviations: list[Floats]  # √(var + ε)
    masks: Masks


@dataclass(frozen=True)
class DropoutMasks:
    """Masks of every critic in the three places where they drop units."""

    target: list[Masks]  # target critics at (s′, a′)
    online: list[Masks]  # critics at (s, a)
    actor: list[Masks]  # new critics at the action of the actor's loss


def droq_blocks(network: Network) -> tuple[list[Block], Network]:
    """The hidden layers, and bias and kernel of the last."""
    hidden = (len(network) - 2) // 4
    dense, norms = network[: 2 * hidden], network[2 * hidden + 2 :]
    arrays = zip(dense[0::2], dense[1::2], norms[0::2], norms[1::2], strict=True)
    return [Block(*block) for block in arrays], network[2 * hidden : 2 * hidden + 2]


def droq_forward(network: Network, x: Floats, masks: Masks) -> tuple[Floats, Tape]:
    """The output, LayerNorm being (h − mean) / √(var + 1e-5) · scale + shift with the biased variance."""
    blocks, (bias, kernel) = droq_blocks(network)
    tape = Tape([x], [], [], masks)
    for block, mask in zip(blocks, masks, strict=True):
        h = (tape.inputs[-1] @ block.kernel + block.bias) * mask
        tape.deviations.append(np.sqrt(h.var(axis=1, keepdims=True) + 1e-5))
        tape.normals.append((h - h.mean(axis=1, keepdims=True)) / tape.deviations[-1])
        tape.inputs.append(np.maximum(tape.normals[-1] * block.scale + block.shift, 0.0))
    return tape.inputs[-1] @ kernel + bias, tape


def droq_backward(network: Network, tape: Tape, slope: Floats) -> tuple[Network, Floats]:
    """From ∂L/∂output, the gradient of every array and ∂L/∂input.

    Through LayerNorm, n the normalised: ∂L/∂h = (g − mean g − n · mean(g n)) / √(var + ε), g = ∂L/∂n.
    """
    blocks, (_, kernel) = droq_blocks(network)
    dense, norms = [slope.sum(axis=0), tape.inputs[-1].T @ slope], Network()
    slope = slope @ kernel.T
    for layer in reversed(range(len(blocks))):
        block, normal = blocks[layer], tape.normals[layer]
        slope = slope * (tape.inputs[layer + 1] > 0.0)
        norms = [slope.sum(axis=0), (slope * normal).sum(axis=0), *norms]
        g = slope * block.scale
        along = (g * normal).mean(axis=1, keepdims=True)
        slope = (g - g.mean(axis=1, keepdims=True) - normal * along) / tape.deviations[layer] * tape.masks[layer]
        dense = [slope.sum(axis=0), tape.inputs[layer].T @ slope, *dense]
        slope = slope @ block.kernel.T
    return dense + norms, slope


def droq_critic_loss(critic: Network, batch: Batch, y: Floats, masks: Masks) -> tuple[float, Network, Floats]:
    """Mean (Q(s, a) − y)²; the third is Q."""
    output, tape = droq_forward(critic, joined(batch.obs, batch.action), masks)
    q = output[:, 0]
    gradient, _ = droq_backward(critic, tape, 2.0 * (q - y)[:, None] / len(y))
    return float(np.mean((q - y) ** 2)), gradient, q


def droq_q(critics: list[Network], obs: Floats, action: Floats, masks: list[Masks]) -> Floats:
    """Q of every critic, (critics, batch)."""
    x, pairs = joined(obs, action), zip(critics, masks, strict=True)
    return np.stack([droq_forward(critic, x, mask)[0][:, 0] for critic, mask in pairs])


def droq_smallest_score(critics: list[Network], obs: Floats, masks: list[Masks]) -> Score:
    """min_i Q_i(s, a) and its ∂/∂a, which is that of the smallest critic."""

    def score(action: Floats) -> tuple[Floats, Floats]:
        outputs, slopes = [], []
        for critic, mask in zip(critics, masks, strict=True):
            output, tape = droq_forward(critic, joined(obs, action), mask)
            _, slope = droq_backward(critic, tape, np.ones_like(output))
            outputs.append(output[:, 0])
            slopes.append(slope[:, obs.shape[1] :])
        which, rows = np.argmin(outputs, axis=0), np.arange(len(obs))
        return np.stack(outputs)[which, rows], np.stack(slopes)[which, rows]

    return score


def droq_sac(
    state: State, batch: Batch, noise: list[Floats], step: int, settings: Settings, masks: DropoutMasks
) -> tuple[State, Metrics]:
    """As ``sac``, with units dropped wherever critics are asked, targets and actor loss included."""
    log_alpha = state.log_alpha.values[0]
    alpha = float(np.exp(log_alpha))
    after = draw(forward(state.actor.values, batch.next_obs)[0], noise[0])
    lowest = droq_q(state.target_critics, batch.next_obs, after.action, masks.target).min(axis=0)
    y = batch.reward + batch.discount * (lowest - alpha * after.log_prob)
    pairs = zip(values_of(state.critics), masks.online, strict=True)
    losses = [droq_critic_loss(critic, batch, y, mask) for critic, mask in pairs]
    critics = step_each(state.critics, [loss[1] for loss in losses], settings.critic_learning_rate)

    score = droq_smallest_score(values_of(critics), batch.obs, masks.actor)
    actor_loss, by_actor, log_prob = scored_actor_loss(state.actor.values, score, batch.obs, noise[1], alpha)
    _, by_log_alpha = temperature_loss(log_alpha, log_prob, target_entropy_of(settings, batch))
    state = replace(
        state,
        critics=critics,
        actor=step_adam(state.actor, by_actor, settings.actor_learning_rate),
        log_alpha=step_adam(state.log_alpha, by_log_alpha, settings.temperature_learning_rate),
    )
    metrics = {
        "critic_loss": sum(loss[0] for loss in losses),
        "q": float(np.mean([loss[2] for loss in losses])),
        "actor_loss": actor_loss,
        "entropy": float(-np.mean(log_prob)),
        "alpha": alpha,
    }
    return move_targets(state, settings.tau), metrics


def droq_nearest_kink(network: Network, x: Floats, masks: Masks) -> float:
    """The smallest |input| of a ReLU."""
    normals = droq_forward(network, x, masks)[1].normals
    blocks, _ = droq_blocks(network)
    return min(float(np.abs(n * b.scale + b.shift).min()) for n, b in zip(normals, blocks, strict=True))


def nearest_branch_droq(
    state: State, batch: Batch, noise: list[Floats], step: int, settings: Settings, masks: DropoutMasks
) -> float:
    """Besides ReLUs and clamp, of the new critics at the actor's action to each other, relative to the largest Q."""
    after, _ = droq_sac(state, batch, noise, step, settings, masks)
    old, new = values_of(state.critics), values_of(after.critics)
    action = draw(forward(state.actor.values, batch.obs)[0], noise[1]).action
    seen, drawn = joined(batch.obs, batch.action), joined(batch.obs, action)
    kinks = [droq_nearest_kink(critic, seen, mask) for critic, mask in zip(old, masks.online, strict=True)]
    kinks += [droq_nearest_kink(critic, drawn, mask) for critic, mask in zip(new, masks.actor, strict=True)]
    q = np.sort(droq_q(new, batch.obs, action, masks.actor), axis=0)
    tie = float((q[1] - q[0]).min() / np.abs(q).max())
    return min(nearest_soft_actor_branch(state.actor.values, batch.obs), tie, *kinks)
