"""The paper's convergence theorem: decaying and constant learning rates, and the step that its proof lacks."""

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from smrl.theory.finite import (
    FiniteMDP,
    Floats,
    Ints,
    effective_rate,
    q_smr_step,
    random_mdp,
    reuse_in_place,
    value_iteration,
)
from smrl.theory.statements import Finding, Line

Z99 = 2.576  # two-sided 99 % of the normal distribution
EXPONENT = 0.8  # of the decaying rate 1/(1+n)^0.8, which satisfies the Robbins–Monro conditions
CHUNK = 4096  # steps drawn at once, because single draws are slow


def errors_along(
    mdp: FiniteMDP,
    rate: Callable[[int, Ints], Floats],
    times: int,
    checkpoints: Sequence[int],
    rows: int,
    rng: np.random.Generator,
) -> Floats:
    """‖Q_T - Q*‖∞ at the checkpoints, (checkpoints, rows), along the uniform policy's trajectories from Q = 0.

    ``rate(t, n)`` gets the step and, per row, the number of earlier visits of the current (s, a).
    """
    optimal = value_iteration(mdp)
    states, actions = mdp.rewards.shape
    heaps = mdp.transitions.cumsum(-1)
    heaps /= heaps[..., -1:]  # so that the last is 1 and rounding never yields an impossible state
    table, visits = np.zeros((rows, states, actions)), np.zeros((rows, states, actions), np.int64)
    state, every = rng.integers(states, size=rows), np.arange(rows)
    errors: list[Floats] = []
    for t in range(max(checkpoints)):
        if t % CHUNK == 0:
            chosen = rng.integers(actions, size=(CHUNK, rows))
            chances = rng.random((CHUNK, rows, 1))
            noise = rng.uniform(-mdp.noise, mdp.noise, (CHUNK, rows))
        action = chosen[t % CHUNK]
        after = (heaps[state, action] <= chances[t % CHUNK]).sum(-1)
        reward = mdp.rewards[state, action] + noise[t % CHUNK]
        seen = visits[every, state, action]
        reuse_in_place(table, state, action, reward, after, rate(t, seen), mdp.gamma, times)
        visits[every, state, action] = seen + 1
        state = after
        if t + 1 in checkpoints:
            errors.append(np.abs(table - optimal).max((1, 2)))
    return np.array(errors)


def slopes(x: Floats, errors: Floats) -> tuple[float, float]:
    """Mean slope of log error over log x, over the rows, and the half-width of its 99 % confidence interval."""
    centred = np.log(x) - np.log(x).mean()
    each = centred @ np.log(errors) / (centred @ centred)
    return float(each.mean()), float(Z99 * each.std(ddof=1) / np.sqrt(len(each)))


def line(name: str, x: Sequence[int] | Floats, errors: Floats) -> Line:
    """Mean over the rows, with its 99 % confidence interval."""
    mean, half = errors.mean(1), Z99 * errors.std(1, ddof=1) / np.sqrt(errors.shape[1])
    return Line(name, np.array(x, np.float64), mean, mean - half, mean + half)


def convergence(seed: int = 0, steps: int = 32_768, rows: int = 40, times: int = 10, constant: float = 0.1) -> Finding:
    """The error goes to 0 with decaying rates, even where s' = s is common, but not with a constant one."""
    rng = np.random.default_rng(seed)
    mdp = random_mdp(rng, 4, 2, gamma=0.7, noise=0.5, stay=0.3)
    checkpoints = [steps >> k for k in range(8, -1, -1)]
    decays = np.arange(2 * rows) < rows

    def rate(t: int, n: Ints) -> Floats:
        return np.where(decays, (1.0 + n) ** -EXPONENT, constant)

    errors = errors_along(mdp, rate, times, checkpoints, 2 * rows, rng)
    parts = {f"α = 1/(1+n)^{EXPONENT:g}": errors[:, :rows], f"constant α = {constant:g}": errors[:, rows:]}
    tail = np.array(checkpoints[-4:], np.float64)
    (fall, fall_half), (flat, flat_half) = (slopes(tail, part[-4:]) for part in parts.values())
    ends = [part[-1].mean() for part in parts.values()]
    measured = (
        f"mean error after {steps:,} steps {ends[0]:.3f}, still falling with slope {fall:.2f} ± {fall_half:.2f}; "
        f"constant rate: {ends[1]:.3f}, slope {flat:.2f} ± {flat_half:.2f} (M = {times})"
    )
    # the constant rate must show no significant slope, or under a tenth of the decaying rate's, and a larger error
    holds = fall + fall_half < 0 and abs(flat) < max(flat_half, 0.1 * abs(fall)) and ends[1] > 2 * ends[0]
    lines = tuple(line(name, checkpoints, part) for name, part in parts.items())
    return Finding("convergence: Q → Q* with decaying rates, not with a constant one", measured, bool(holds), lines)


def sampled_bias(mdp: FiniteMDP, table: Floats, rate: float, times: int) -> float:
    """Bias of the backup that M reuses amount to, against the expected T Q; the largest of all pairs, without noise."""
    weight = float(effective_rate(rate, times))
    worst = 0.0
    for s, a in np.ndindex(*mdp.rewards.shape):
        reward = float(mdp.rewards[s, a])
        once = reward + mdp.gamma * table.max(1)
        looped = np.array(
            [q_smr_step(table, s, a, reward, after, rate, mdp.gamma, times)[s, a] for after in range(len(table))]
        )
        towards = (looped - (1 - rate) ** times * table[s, a]) / weight
        worst = max(worst, abs(float(mdp.transitions[s, a] @ (towards - once))))
    return worst


def vanishing_bias(seed: int = 0, times: int = 10) -> Finding:
    """The step that the proof lacks: where s' = s, reuses are biased, by at most γ (M-1) α 2 r_max/(1-γ)."""
    rng = np.random.default_rng(seed)
    rates: Floats = np.exp2(-np.arange(2.0, 13.0))
    biases, fractions = [], []
    for _ in range(20):
        mdp = random_mdp(rng, 3, 2, gamma=0.8, stay=0.3)
        table = rng.uniform(-mdp.value_bound, mdp.value_bound, mdp.rewards.shape)
        found = np.array([sampled_bias(mdp, table, float(rate), times) for rate in rates])
        biases.append(found)
        fractions.append(found / (mdp.gamma * (times - 1) * rates * 2 * mdp.value_bound))
    small = np.array(biases)[:, -6:].T
    slope, half = slopes(rates[-6:], small)
    measured = f"bias over α in log–log: slope {slope:.3f} ± {half:.3f}; at most {np.max(fractions):.2f} of its bound"
    holds = bool(np.max(fractions) <= 1 and abs(slope - 1) < 0.05)
    return Finding("convergence, the step its proof lacks: bias ≤ γ(M-1)α·2r_max/(1-γ)", measured, holds)


def constant_fixed_point(gamma: float, stay: float, rate: float, times: int) -> tuple[float, float]:
    """Q* and the stationary mean of Q-SMR, for one state of reward 1 that is left for good with chance 1 - stay."""
    left, stayed = float(effective_rate(rate, times)), float(effective_rate(rate * (1 - gamma), times))
    weights = np.array([stay * stayed, (1 - stay) * left])
    return 1 / (1 - gamma * stay), float(weights @ [1 / (1 - gamma), 1.0] / weights.sum())


def constant_rate_bias(seed: int = 0, steps: int = 4000, rows: int = 2000, times: int = 10) -> Finding:
    """False: where s' = s is random, Q-SMR with a constant rate is biased in the mean, unlike Q-learning."""
    rng = np.random.default_rng(seed)
    gamma, stay, rate = 0.9, 0.5, 0.05
    optimal, predicted = constant_fixed_point(gamma, stay, rate, times)
    means = {}
    for count in (1, times):
        table = np.zeros((rows, 2, 1))  # state 1 is terminal, of value 0
        zeros: NDArray[np.int64] = np.zeros(rows, np.int64)
        total = 0.0
        for step in range(steps // count):
            after = (rng.random(rows) >= stay).astype(np.int64)
            reuse_in_place(table, zeros, zeros, 1.0, after, rate, gamma, count)
            if step >= steps // count // 2:
                total += float(table[:, 0, 0].mean())
        means[count] = total / (steps // count - steps // count // 2)
    measured = (
        f"Q* = {optimal:.3f}; mean of Q-learning {means[1]:.3f}, with M = {times} reuses {means[times]:.3f} "
        f"(predicted {predicted:.3f}), with M → ∞ {constant_fixed_point(gamma, stay, rate, 10**6)[1]:.3f}"
    )
    return Finding(
        "constant rate (beyond the paper): reuse keeps the mean at Q*", measured, abs(means[times] - optimal) < 0.01
    )
