"""All statements that are checked, each with changes of the world that must turn its verdict."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from smrl.paper.theory import deep, finite_time, learning_rates, lemmas, limits, noise, repair, scaling, statements
from smrl.paper.theory.figures import draw_convergence, draw_finite_time, draw_rates, draw_scaling
from smrl.paper.theory.finding import Finding
from smrl.paper.theory.finite import effective_rate

FORGETS = (((0.1, 0.4, 0.5),) * 3,)


@dataclass(frozen=True)
class Claim:
    """A check, and what it is called with where the world is changed so that its verdict has to turn."""

    check: Callable[..., Finding]
    what_if: Mapping[str, Mapping[str, Any]]  # "… were …" → arguments of the check
    draw: Callable[[Finding, Path], Path] | None = None
    seeded: bool = field(default=True, kw_only=True)  # whether the check draws random numbers from a seed

    def found(self, seed: int, **changes: Any) -> Finding:
        """Run the check."""
        return self.check(seed, **changes) if self.seeded else self.check(**changes)


QUICK = {"decay": 0.6, "span": 32, "rows": 50}

CLAIMS = (
    Claim(statements.update_rule, {"T Q were computed once per transition": {"step": statements.enlarged_step}}),
    Claim(statements.stability, {"rewards exceeded r_max by 1 %": {"largest_reward": 1.01, "steps": 1000}}),
    Claim(
        statements.nonreturnable,
        {"the rate were min(1, Mα)": {"effective": lambda rate, times: np.minimum(1, times * rate)}},
    ),
    Claim(statements.never_enlarged, {"M could be 1": {"least": 1}}),
    Claim(
        statements.effective_rates,
        {"the exponent were M + 1": {"effective": lambda rate, times: effective_rate(rate, times + 1)}},
        draw_rates,
        seeded=False,
    ),
    Claim(deep.gradient_sum, {"SGD had a momentum of 0.9": {"momentum": 0.9}}),
    Claim(deep.one_loss, {"the target network stood still": {"soft": 0.0}}),
    Claim(deep.adam, {"the optimiser were SGD": {"adaptive": False}}),
    Claim(deep.never_equal, {"α were 0.5": {"rate": 0.5}}, seeded=False),
    Claim(
        limits.convergence,
        {
            "all rewards of Q* were 0.05 larger (limit wrong by 0.167)": {"shift": 0.05},
            "all rewards of Q* were 0.075 larger (limit wrong by 0.25)": {"shift": 0.075},
            "the rate were constant": {"constant": True},
            "the rates were summable": {"exponent": 2.0, "steps": 8192},
        },
        draw_convergence,
    ),
    Claim(
        limits.vanishing_bias,
        {"the loop had the rate √α": {"power": 0.5}, "the bound lacked ‖Δ‖": {"grows": False}},
    ),
    Claim(limits.constant_rate_bias, {"the state were never left": {"stay": 1.0}}),
    Claim(finite_time.finite_time, {"α_t fell like (t+t0)^-0.6": QUICK}, draw_finite_time),
    Claim(finite_time.sample_complexity, {"α_t fell like (t+t0)^-0.6": QUICK}),
    Claim(finite_time.bound_is_informative, {"all constants were 10,000 times smaller": {"constants": 1e-4}}),
    Claim(repair.exploration_condition, {"M were 1": {"times": 1}}),
    Claim(repair.condition_for_two, {"all rows of the chain were equal": {"chains": FORGETS}}, seeded=False),
    Claim(repair.repaired_rate, {"Mα could be 1": {"largest": 1.0}}, seeded=False),
    Claim(repair.small_chains_mix, {"there were three states": {"states": 3}}),
    Claim(
        lemmas.beta_lemma,
        {"d were at least σ, as in a chain": {"least": "σ"}, "the bounds had 1.1 σ": {"share": 1.1}},
        seeded=False,
    ),
    Claim(
        partial(lemmas.beta_lemma, repaired=True), {"the bounds had σ in place of ⅞ σ": {"share": 1.0}}, seeded=False
    ),
    Claim(
        lemmas.root_gamma,
        {"d were at least σ, as in a chain": {"least": "σ"}, "h were 10 % too small": {"slack": 0.9}},
        seeded=False,
    ),
    Claim(partial(lemmas.root_gamma, repaired=True), {"h were not 8/7 as large": {"slack": 7 / 8}}, seeded=False),
    Claim(noise.noise_bounds, {"rewards were 3 r_max": {"largest_reward": 3.0}}),
    Claim(noise.weighted_noise, {"rewards were 3,000 r_max": {"largest_reward": 3000.0}}),
    Claim(noise.azuma, {"the bound took τ for 1": {"known_delay": 1}}),
    Claim(lemmas.tail_lemma, {"d could be 0.15": {"least": 0.15}}),
    Claim(lemmas.last_step, {"t0 were 1": {"t0": 1}}, seeded=False),
    Claim(finite_time.union_over_steps, {"δ were replaced by δ/T": {"by_length": True}}),
    Claim(finite_time.dropped_term, {"r_max were 1": {"reward": 1.0}}, seeded=False),
)
STUDIES = (
    Claim(scaling.in_gamma, {"the corollary had the power 1": {"power": 1.0}}, partial(draw_scaling, "gamma")),
    Claim(scaling.in_rarest, {"the corollary had the power 0.5": {"power": 0.5}}, partial(draw_scaling, "rarest")),
    Claim(scaling.in_mixing, {"the corollary had the power -0.5": {"power": -0.5}}, partial(draw_scaling, "mixing")),
    Claim(learning_rates.in_epsilon, {"the power were -1/ω": {"numerator": 1.0}}),
    Claim(learning_rates.in_gamma, {"the other rate were the theorem's too": {"omegas": (None,)}}),
)
