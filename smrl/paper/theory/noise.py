"""The lemmas on the noise terms ε and φ in the proof of the finite-time bound, along trajectories."""

from functools import cache
from typing import NamedTuple

import numpy as np

from smrl.paper.theory.finding import Finding, Floats, Ints
from smrl.paper.theory.finite import value_iteration
from smrl.paper.theory.finite_time import DELTA, Conditions, example
from smrl.paper.theory.trajectories import play

REUSES = (1, 10)
STEPS, ROWS = 3000, 20
RUNS = f"{ROWS} runs each for M = {', '.join(map(str, REUSES))}"


class Noise(NamedTuple):
    """ε(t) and φ(t) for t from τ, each (steps, runs, pairs), and what bounds them."""

    case: Conditions
    chances: Floats  # d_{t,i} = P(i_t = i | τ steps ago)
    epsilon: Floats
    phi: Floats
    bound: float  # ε̄


@cache  # two statements use the same noise
def noise(seed: int, times: int, largest_reward: float) -> Noise:
    """Noise of runs with the theorem's rates; rewards are ``largest_reward`` times those that ε̄ knows of."""
    known, found, case = example(seed)
    mdp = known.scaled(largest_reward)
    bound = 4 * known.value_bound + (1 + known.gamma) * float(np.abs(value_iteration(known)).max())

    def rate(t: int, n: Ints) -> Floats:
        return case.rate(t, times)

    rng = np.random.default_rng(seed)
    current = mdp.value_bound * rng.choice([-1.0, 1.0], (ROWS, *mdp.rewards.shape))  # the worst tables within the bound
    tables, samples = [current.copy()], []
    for sample in play(mdp, rate, 1, STEPS, current, rng):
        tables.append(current.copy())
        samples.append(sample)
    x = np.array(tables[:-1])  # before each step
    state, action, reward, following = (np.array(column) for column in zip(*samples, strict=True))
    values = x.max(-1)
    backups = mdp.rewards + mdp.gamma * np.einsum("saj,trj->trsa", mdp.transitions, values)  # F(x)
    gaps = (backups - x).reshape(STEPS, ROWS, -1)
    pairs = state * mdp.rewards.shape[1] + action
    ones = np.eye(mdp.rewards.size)[pairs]
    sampled = reward + mdp.gamma * np.take_along_axis(values, following[..., None], 2)[..., 0]
    omega = sampled - (backups.reshape(gaps.shape) * ones).sum(-1)

    tau = case.delay
    chances = np.linalg.matrix_power(found.chain, tau)[pairs[:-tau]]
    away = ones[tau:] - chances
    epsilon = away * gaps[:-tau] + omega[tau:, :, None] * ones[tau:]
    return Noise(case, chances, epsilon, away * (gaps[tau:] - gaps[:-tau]), bound)


def noise_bounds(seed: int = 0, largest_reward: float = 1.0) -> Finding:
    """The lemma on ε and φ: ‖ε(t)‖ ≤ ε̄ and ‖φ(t)‖ ≤ 2ε̄ (α̂_{t-τ} + … + α̂_{t-1})."""
    shares = np.zeros(2)
    for times in REUSES:
        found = noise(seed, times, largest_reward)
        tau = found.case.delay
        sums = np.append(0, found.case.rate(np.arange(STEPS), times).cumsum())
        window = (sums[tau:] - sums[:-tau])[: STEPS - tau]
        sizes = (np.abs(part).max((1, 2)) for part in (found.epsilon, found.phi))
        bounds = (found.bound, 2 * found.bound * window)
        shares = np.maximum(shares, [(size / bound).max() for size, bound in zip(sizes, bounds, strict=True)])
    measured = f"‖ε‖ is at most {shares[0]:.2f} of its bound, ‖φ‖ {shares[1]:.2f} ({RUNS})"
    return Finding("finite time, lemma on ε and φ", measured, bool((shares <= 1).all()))


def weighted_noise(seed: int = 0, largest_reward: float = 1.0) -> Finding:
    """The bounds on Σ α̂_k B̃_{k,t} ε(k), with chance 1-δ, and on Σ α̂_k B̃_{k,t} φ(k)."""
    shares = np.zeros(2)
    for times in REUSES:
        found = noise(seed, times, largest_reward)
        case, sigma = found.case, found.case.rarest / 2
        sums = np.zeros((2, *found.epsilon.shape[1:]))
        for index, parts in enumerate(zip(found.epsilon, found.phi, strict=True)):
            t = case.delay + index
            rate, late = float(case.rate(t, times)), t + 1 + case.t0
            sums = (1 - rate * found.chances[index]) * sums + rate * np.array(parts)
            logarithm = np.log(2 * (case.delay + 1) * t * sums.shape[-1] / DELTA)
            first = 6 * found.bound * np.sqrt((case.delay + 1) * case.h / (sigma * late) * logarithm)
            second = 16 * found.bound * case.h * case.delay / (sigma * late)
            shares = np.maximum(shares, np.abs(sums).max((1, 2)) / [first, second])
    measured = f"the sum of ε is at most {shares[0]:.4f} of its bound, that of φ {shares[1]:.4f} ({RUNS})"
    return Finding("finite time, lemma on the weighted sums of ε and φ", measured, bool((shares <= 1).all()))


def azuma(seed: int = 0, delay: int = 10, known_delay: int = 10) -> Finding:
    """Azuma–Hoeffding for X with E[X_t | t-τ] = 0; the bound is given ``known_delay`` for τ."""
    rng = np.random.default_rng(seed)
    blocks, runs = 50, 20_000
    # the worst case: τ equal signs in a row, each row independent of the one before
    totals = delay * rng.choice([-1, 1], (blocks, runs)).sum(0)
    bound = np.sqrt(2 * known_delay * blocks * delay * np.log(2 * known_delay / DELTA))
    share = float((np.abs(totals) > bound).mean())
    measured = f"|ΣX| exceeds the bound in {share:.1%} of {runs:,} runs with τ = {delay}; δ = {DELTA:.0%}"
    return Finding("finite time, Azuma–Hoeffding with delay τ", measured, share <= DELTA)
