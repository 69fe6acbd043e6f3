"""The lemmas in the proof of the finite-time bound: inequalities between sequences, and noise along trajectories.

σ = μ_min/2, α̂ = 1-(1-α)^M with the theorem's α, and d is the chance of a pair given the pair τ steps ago. The paper
takes d ≥ Mσ; a chain gives d ≥ σ. In the repaired proof d ≥ σ, h is 8/7 times as large and (7/8)σ replaces σ.
"""

from collections.abc import Iterator
from functools import cache
from itertools import product
from typing import NamedTuple

import numpy as np

from smrl.paper.theory.finding import Finding, Floats, Ints
from smrl.paper.theory.finite_time import DELTA, REPAIR, Conditions, example
from smrl.paper.theory.mdp import play, value_iteration

REUSES = (1, 2, 10)
RAREST = (0.02, 0.1, 0.19)
GAMMAS = (0.3, 0.8, 0.95)
MIXING_TIMES = (1, 20)
NOISE_REUSES = (1, 10)
STEPS, ROWS = 3000, 20
NOISE_RUNS = f"{ROWS} runs each for M = {', '.join(map(str, NOISE_REUSES))}"


def cases(gammas: tuple[float, ...], factor: float = 1.0) -> Iterator[Conditions]:
    """Yield conditions of the theorem with h ``factor`` times as large."""
    for rarest, mixing_time, gamma in product(RAREST, MIXING_TIMES, gammas):
        yield Conditions.of(rarest, mixing_time, gamma, factor)


def beta_shares(case: Conditions, times: int, least: float, sigma: float, last: int) -> tuple[float, float, float]:
    """Return parts (a), (b) and (c) of the lemma on β at t = ``last``, as shares of their bounds, for d ≥ ``least``."""
    k = np.arange(last + 1)
    rates, late = case.rate(k, times), float(last + 1 + case.t0)
    logs = np.log1p(-least * rates).cumsum()
    tail = np.exp(logs[-1] - logs)  # β̃_{k,t} for all k
    beta, tau = rates * tail, case.delay
    power = ((k + 1 + case.t0) / late) ** (sigma * case.h)
    part_a = max((tail / power)[tau:].max(), (beta / power / case.h * (k + case.t0))[tau:].max())
    part_b = np.square(beta[1:]).sum() * late * sigma / (2 * case.h)
    sums = np.append(0, rates.cumsum())
    window = sums[tau:-1] - sums[: len(sums) - 1 - tau]  # α̂_{k-τ} + … + α̂_{k-1} for k ≥ τ
    part_c = beta[tau:] @ window * late * sigma / (8 * case.h * tau)
    return float(part_a), float(part_b), float(part_c)


def beta_lemma(repaired: bool = False, least: str = "", share: float | None = None) -> Finding:
    """Check the lemma on β (a–c), printed or repaired; ``least`` (Mσ or σ) bounds d, the bounds have ``share``·σ."""
    least = least or ("σ" if repaired else "Mσ")
    share = share or (1 / REPAIR if repaired else 1.0)
    worst = np.zeros(3)
    for case, times in product(cases(GAMMAS, REPAIR if repaired else 1.0), REUSES):
        sigma = case.rarest / 2
        chance = sigma * (times if least == "Mσ" else 1)
        for last in (case.delay + 1, case.t0, 8 * case.t0):
            worst = np.maximum(worst, beta_shares(case, times, chance, share * sigma, last))
    parts = ", ".join(f"({name}) {value:.4f}" for name, value in zip("abc", worst, strict=True))
    measured = f"where d ≥ {least}, the largest shares of the bounds with {share:.3g} σ are {parts}"
    name = "repaired" if repaired else "as printed"
    return Finding(f"finite time, lemma on β, {name}", measured, bool((worst <= 1 + 1e-9).all()))


def root_gamma(repaired: bool = False, least: str = "", slack: float = 1.0) -> Finding:
    """Check the lemma on √γ, as printed or repaired, with ``slack`` times the smallest h that it allows."""
    least, factor = least or ("σ" if repaired else "Mσ"), slack * (REPAIR if repaired else 1.0)
    rng = np.random.default_rng(0)
    rows = np.array(list(product(RAREST, GAMMAS, REUSES, (0.5, 1.0), (0, 1))))
    rarest, gamma, times, omega, free = rows.T
    sigma = rarest / 2
    h = factor / (sigma * (1 - np.sqrt(gamma)))
    t0, chance = np.ceil(4 * h), sigma * (times if least == "Mσ" else 1)
    total, worst = np.zeros(len(rows)), 0.0
    for t in range(1, 10_000):
        rate = -np.expm1(times * np.log1p(-h / (times * (t + t0))))
        moved = rate * (chance + free * rng.uniform(size=len(rows)) * (1 - chance))  # α̂ d, with d at its bound or above
        total = (1 - moved) * total + moved * (t + t0) ** -omega
        worst = max(worst, float((total * np.sqrt(gamma) * (t + 1 + t0) ** omega).max()))
    measured = f"where d ≥ {least} and σh(1-√γ) = {factor:.3g}, the largest share of the bound is {worst:.4f}"
    name = "repaired" if repaired else "as printed"
    return Finding(f"finite time, lemma on √γ, {name}", measured, worst <= 1 + 1e-9)


def tail_lemma(seed: int = 0, samples: int = 600, least: float = 0.2) -> Finding:
    """Check that Π(1-α̂σ) may replace the weights Π(1-α̂d) at the price of a supremum; σ = 0.2 and d ≥ ``least``."""
    rng = np.random.default_rng(seed)
    length, sigma = 400, 0.2
    rates = 10 / (40.0 + np.arange(length))
    # in half of the sequences d is at its bound; a third has noise of one sign, a third at the end only
    chances = rng.uniform(least, np.where(np.arange(samples) % 2, 1, least)[:, None], (samples, length))
    noise = rng.uniform(-1, 1, (samples, length))
    noise[::3], noise[1::3] = 1, np.sign(noise[1::3]) * (np.arange(length) > length // 2)

    def weights(factors: Floats) -> Floats:
        tails = np.cumprod(factors[:, ::-1], 1)[:, ::-1]
        return rates * np.append(tails[:, 1:], np.ones((len(factors), 1)), 1)

    left = np.abs((noise * weights(1 - rates * chances)).sum(1))
    beta = weights(1 - rates[None] * sigma)
    sums = (noise * beta)[:, ::-1].cumsum(1)[:, ::-1] - noise * beta  # over k > k0
    share = float((left / (np.abs(sums) + 2 * beta).max(1)).max())
    measured = f"largest share of the bound {share:.4f}, over {samples:,} sequences with d ≥ {least:g}, σ = {sigma:g}"
    return Finding("finite time, lemma on the weights: a supremum replaces random weights", measured, share <= 1)


def last_step(t0: int | None = None) -> Finding:
    """Check the last step of the lemma on ε, h/(t+t0) ≤ 2√((τ+1)h log(2(τ+1)t/δ)/(σ(t+1+t0))), claimed for large t."""
    worst = 0.0
    for case in cases((*GAMMAS, 0.99999)):
        t, start = case.delay + np.unique(np.geomspace(1, 1e6, 200).astype(int)) - 1, t0 or case.t0
        logarithm = np.log(2 * (case.delay + 1) * t / DELTA)
        right = 2 * np.sqrt((case.delay + 1) * case.h * logarithm / (case.rarest / 2 * (t + 1 + start)))
        worst = max(worst, float((case.h / (t + start) / right).max()))
    shown = f"t0 = {t0}" if t0 else "the theorem's t0"
    measured = f"the left side is at most {worst:.3f} of the right, for all t ≥ τ with {shown} and γ up to 0.99999"
    return Finding("finite time, lemma on ε: its last step holds for every t", measured, worst <= 1)


class Noise(NamedTuple):
    """ε(t) and φ(t) for t from τ, each (steps, runs, pairs), and what bounds them."""

    case: Conditions
    chances: Floats  # d_{t,i} = P(i_t = i | τ steps ago)
    epsilon: Floats
    phi: Floats
    bound: float  # ε̄


@cache  # two statements use the same noise
def noise(seed: int, times: int, largest_reward: float) -> Noise:
    """Return the noise of runs with the theorem's rates; rewards are ``largest_reward`` times those that ε̄ assumes."""
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
    """Check the lemma on ε and φ: ‖ε(t)‖ ≤ ε̄ and ‖φ(t)‖ ≤ 2ε̄ (α̂_{t-τ} + … + α̂_{t-1})."""
    shares = np.zeros(2)
    for times in NOISE_REUSES:
        found = noise(seed, times, largest_reward)
        tau = found.case.delay
        sums = np.append(0, found.case.rate(np.arange(STEPS), times).cumsum())
        window = (sums[tau:] - sums[:-tau])[: STEPS - tau]
        sizes = (np.abs(part).max((1, 2)) for part in (found.epsilon, found.phi))
        bounds = (found.bound, 2 * found.bound * window)
        shares = np.maximum(shares, [(size / bound).max() for size, bound in zip(sizes, bounds, strict=True)])
    measured = f"‖ε‖ is at most {shares[0]:.2f} of its bound, ‖φ‖ {shares[1]:.2f} ({NOISE_RUNS})"
    return Finding("finite time, lemma on ε and φ", measured, bool((shares <= 1).all()))


def weighted_noise(seed: int = 0, largest_reward: float = 1.0) -> Finding:
    """Check the bounds on Σ α̂_k B̃_{k,t} ε(k), with chance 1-δ, and on Σ α̂_k B̃_{k,t} φ(k)."""
    shares = np.zeros(2)
    for times in NOISE_REUSES:
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
    measured = f"the sum of ε is at most {shares[0]:.4f} of its bound, that of φ {shares[1]:.4f} ({NOISE_RUNS})"
    return Finding("finite time, lemma on the weighted sums of ε and φ", measured, bool((shares <= 1).all()))


def azuma(seed: int = 0, delay: int = 10, known_delay: int = 10) -> Finding:
    """Check Azuma–Hoeffding for X with E[X_t | t-τ] = 0; the bound takes ``known_delay`` for τ."""
    rng = np.random.default_rng(seed)
    blocks, runs = 50, 20_000
    # the worst case: τ equal signs in a row, each row independent of the one before
    totals = delay * rng.choice([-1, 1], (blocks, runs)).sum(0)
    bound = np.sqrt(2 * known_delay * blocks * delay * np.log(2 * known_delay / DELTA))
    share = float((np.abs(totals) > bound).mean())
    measured = f"|ΣX| exceeds the bound in {share:.1%} of {runs:,} runs with τ = {delay}; δ = {DELTA:.0%}"
    return Finding("finite time, Azuma–Hoeffding with delay τ", measured, share <= DELTA)
