"""The paper's convergence theorem with decaying and constant learning rates, and the step that its proof lacks."""

from functools import cache, partial

import numpy as np

from smrl.paper.theory.finding import Finding, Floats, Ints, bootstrap, limit, line, slope
from smrl.paper.theory.mdp import (
    FiniteMDP,
    Sample,
    distance,
    effective_rate,
    q_smr_step,
    random_mdp,
    reuse_in_place,
    tables_at,
    value_iteration,
)

STEPS, ROWS, TIMES = 32_768, 160, 10
CONSTANT = 0.1  # the constant learning rate, for contrast
SHIFT = 0.05  # added to all rewards: the check of the limit must be able to detect it


@cache  # the changed worlds of the statement use the same runs
def trials(seed: int, exponent: float, steps: int) -> tuple[FiniteMDP, Floats, Floats]:
    """Return an MDP, checkpoints T, and the Q-tables there; runs from ``ROWS`` on have a constant rate."""
    rng = np.random.default_rng(seed)
    mdp = random_mdp(rng, 4, 2, gamma=0.7, noise=0.5, normal=True, stay=0.3)
    checkpoints = [round(steps * 2 ** (-k / 2)) for k in range(10, -1, -1)]
    decays = np.arange(ROWS + ROWS // 4) < ROWS

    def rate(t: int, n: Ints) -> Floats:
        return np.where(decays, (1.0 + n) ** -exponent, CONSTANT)

    return mdp, np.array(checkpoints, np.float64), tables_at(checkpoints, mdp, rate, TIMES, len(decays), rng)


def convergence(
    seed: int = 0, exponent: float = 1.0, shift: float = 0.0, constant: bool = False, steps: int = STEPS
) -> Finding:
    """Check that the error goes to 0 with decaying rates, even where s' = s is common and rewards have no bound.

    The rates are 1/(1+n)^exponent, or 0.1 if ``constant``; ``shift`` is added to all rewards of Q*.
    """
    mdp, checkpoints, tables = trials(seed, exponent, steps)
    errors = distance(tables, value_iteration(mdp) + shift / (1 - mdp.gamma))
    decaying = "α = 1/(1+n)" + f"^{exponent:g}" * (exponent != 1)
    parts = {decaying: errors[:, :ROWS], f"constant α = {CONSTANT:g}": errors[:, ROWS:]}
    name, judged = list(parts.items())[constant]
    end = bootstrap(lambda drawn: limit(checkpoints, drawn.mean(1)), judged, np.random.default_rng(seed))
    visible = SHIFT / (1 - mdp.gamma)
    measured = (
        f"error {judged[-1].mean():.3f} after {steps:,} steps with {name} and M = {TIMES}; fit e∞ + c·T^-p: "
        f"e∞ = {end.text(3)}, an interval that has to contain 0 and to exclude {visible:.3f}"
    )
    holds = end.low <= 0 <= end.high < visible
    lines = tuple(line(name, checkpoints, part) for name, part in parts.items())
    return Finding("convergence: Q → Q* with decaying rates", measured, holds, lines)


def sampled_bias(mdp: FiniteMDP, table: Floats, rate: float, times: int) -> float:
    """Return the largest bias over all pairs of the backup that M reuses amount to, against the expected T Q.

    Exact for rewards on the nodes of a Gauss–Hermite rule, which has the moments of the normal noise.
    """
    noise, chances = normal_nodes(mdp.noise)
    states = len(table)
    following, noise = np.repeat(np.arange(states), len(noise)), np.tile(noise, states)
    worst = 0.0
    for s, a in np.ndindex(*mdp.rewards.shape):
        reward = mdp.rewards[s, a] + noise
        tables = np.broadcast_to(table, (len(noise), *table.shape))
        looped = q_smr_step(tables, Sample(s, a, reward, following), rate, mdp.gamma, times)[:, s, a]
        towards = (looped - (1 - rate) ** times * table[s, a]) / float(effective_rate(rate, times))
        weights = np.outer(mdp.transitions[s, a], chances).ravel()
        worst = max(worst, abs(float(weights @ (towards - reward - mdp.gamma * table.max(1)[following]))))
    return worst


def normal_nodes(sd: float, count: int = 16) -> tuple[Floats, Floats]:
    """Return values and chances of a discrete distribution with the first 2·count - 1 moments of the normal one."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(count)
    return sd * nodes, weights / weights.sum()


def bias_bound(mdp: FiniteMDP, table: Floats, rate: float, times: int, grows: bool = True) -> float:
    """Return the bound C·α·(1 + ‖Δ‖) on the bias of M reuses for rewards of finite mean; no ‖Δ‖ unless ``grows``."""
    noise, chances = normal_nodes(mdp.noise)
    reward = float((np.abs(mdp.rewards[..., None] + noise) @ chances).max())  # the largest E|r|
    optimal = value_iteration(mdp)
    constant = mdp.gamma * (times - 1) * max(reward + (1 + mdp.gamma) * np.abs(optimal).max(), 1 + mdp.gamma)
    return float(constant * rate * (1 + grows * np.abs(table - optimal).max()))


def vanishing_bias(seed: int = 0, times: int = 10, power: float = 1.0, grows: bool = True) -> Finding:
    """Check the step that the proof lacks: where s' = s, M reuses are biased by at most C·α·(1 + ‖Δ‖).

    The reuses have the rate α^power.
    """
    rng = np.random.default_rng(seed)
    rates: Floats = np.exp2(-np.arange(4.0, 13.0))
    scales = 10.0 ** np.arange(4)
    biases, fractions = [], []
    for scale in np.repeat(scales, 4):
        mdp = random_mdp(rng, 3, 2, gamma=0.8, noise=0.5, normal=True, stay=0.3)
        table = value_iteration(mdp) + scale * rng.uniform(-1, 1, mdp.rewards.shape)
        found = np.array([sampled_bias(mdp, table, float(rate) ** power, times) for rate in rates])
        biases.append(found)
        fractions.append(found / [bias_bound(mdp, table, float(rate), times, grows) for rate in rates])
    fall = slope(rates[-6:], np.array(biases)[:, -6:].T)
    measured = (
        f"bias over α in log–log: slope {fall.value:.2f}; at most {np.max(fractions):.2f} of its bound, for normal "
        f"rewards and ‖Δ‖ up to {scales[-1]:,.0f}"
    )
    holds = bool(np.max(fractions) <= 1 and abs(fall.value - 1) < 0.05)
    return Finding("convergence, the step its proof lacks: bias ≤ C·α·(1 + ‖Δ‖)", measured, holds)


def constant_fixed_point(gamma: float, stay: float, rate: float, times: int) -> tuple[float, float]:
    """Return Q* and the stationary mean of Q-SMR for a state of reward 1 that is left forever with chance 1 - stay."""
    left, stayed = float(effective_rate(rate, times)), float(effective_rate(rate * (1 - gamma), times))
    weights = np.array([stay * stayed, (1 - stay) * left])
    return 1 / (1 - gamma * stay), float(weights @ [1 / (1 - gamma), 1.0] / weights.sum())


def constant_rate_bias(seed: int = 0, steps: int = 4000, rows: int = 2000, stay: float = 0.5) -> Finding:
    """Check the false claim that reuse keeps the mean at Q*: where s' = s is random, a constant rate biases Q-SMR."""
    rng = np.random.default_rng(seed)
    gamma, rate, times = 0.9, 0.05, 10
    means = {}
    for count in (1, times):
        tables = np.zeros((rows, 2, 1))  # state 1 is terminal, of value 0
        total = 0.0
        for step in range(steps // count):
            after = (rng.random(rows) >= stay).astype(np.int64)
            reuse_in_place(tables, Sample(0, 0, 1.0, after), rate, gamma, count)
            if step >= steps // count // 2:
                total += float(tables[:, 0, 0].mean())
        means[count] = total / (steps // count - steps // count // 2)
    fixed = partial(constant_fixed_point, gamma, stay, rate)
    optimal, predicted = fixed(times)
    measured = (
        f"Q* = {optimal:.2f}; mean of Q-learning {means[1]:.2f}, with M = {times} reuses {means[times]:.2f} "
        f"(predicted {predicted:.2f}), with M → ∞ {fixed(10**6)[1]:.2f}"
    )
    holds = abs(means[times] - optimal) < 0.01
    return Finding("constant rate (beyond the paper): reuse keeps the mean at Q*", measured, holds)
