"""All statements that are checked, each with changes of the world that must reverse its verdict."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.markup import escape

from smrl.paper.theory import finite_time, lemmas, limits, one_update, scaling
from smrl.paper.theory.figures import draw_convergence, draw_finite_time, draw_rates, draw_scaling
from smrl.paper.theory.finding import Finding
from smrl.paper.theory.mdp import effective_rate
from smrl.runs.atomic import writing
from smrl.validation import Seed, validate

FORGETS = (((0.1, 0.4, 0.5),) * 3,)


@dataclass(frozen=True)
class Claim:
    """A check, and arguments that change the world so that its verdict must be reversed."""

    check: Callable[..., Finding]
    what_if: Mapping[str, Mapping[str, Any]]  # "… were …" → arguments of the check
    draw: Callable[[Finding, Path], Path] | None = None
    seeded: bool = field(default=True, kw_only=True)  # the check takes a seed

    def found(self, seed: int, **changes: Any) -> Finding:
        """Run the check."""
        return self.check(seed, **changes) if self.seeded else self.check(**changes)


QUICK = {"decay": 0.6, "span": 32, "rows": 50}

CLAIMS = (
    Claim(one_update.update_rule, {"T Q were computed once per transition": {"step": one_update.enlarged_step}}),
    Claim(one_update.stability, {"rewards exceeded r_max by 1 %": {"largest_reward": 1.01, "steps": 1000}}),
    Claim(
        one_update.nonreturnable,
        {"the rate were min(1, Mα)": {"effective": lambda rate, times: np.minimum(1, times * rate)}},
    ),
    Claim(one_update.never_enlarged, {"M could be 1": {"least": 1}}),
    Claim(
        one_update.effective_rates,
        {"the exponent were M + 1": {"effective": lambda rate, times: effective_rate(rate, times + 1)}},
        draw_rates,
        seeded=False,
    ),
    Claim(one_update.gradient_sum, {"SGD had a momentum of 0.9": {"momentum": 0.9}}),
    Claim(one_update.one_loss, {"the target network stood still": {"soft": 0.0}}),
    Claim(one_update.adam, {"the optimiser were SGD": {"adaptive": False}}),
    Claim(one_update.never_equal, {"α were 0.5": {"rate": 0.5}}, seeded=False),
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
    Claim(finite_time.exploration_condition, {"M were 1": {"times": 1}}),
    Claim(finite_time.condition_for_two, {"all rows of the chain were equal": {"chains": FORGETS}}, seeded=False),
    Claim(finite_time.repaired_rate, {"Mα could be 1": {"largest": 1.0}}, seeded=False),
    Claim(finite_time.small_chains_mix, {"there were three states": {"states": 3}}),
    Claim(
        lemmas.beta_lemma,
        {"d were at least σ, as in a chain": {"least": "σ"}, "the bounds had 1.1 σ": {"share": 1.1}},
        seeded=False,
    ),
    Claim(partial(lemmas.beta_lemma, repaired=True), {"the bounds had σ instead of ⅞ σ": {"share": 1.0}}, seeded=False),
    Claim(
        lemmas.root_gamma,
        {"d were at least σ, as in a chain": {"least": "σ"}, "h were 10 % too small": {"slack": 0.9}},
        seeded=False,
    ),
    Claim(partial(lemmas.root_gamma, repaired=True), {"h were not 8/7 as large": {"slack": 7 / 8}}, seeded=False),
    Claim(lemmas.noise_bounds, {"rewards were 3 r_max": {"largest_reward": 3.0}}),
    Claim(lemmas.weighted_noise, {"rewards were 3,000 r_max": {"largest_reward": 3000.0}}),
    Claim(lemmas.azuma, {"the bound took τ for 1": {"known_delay": 1}}),
    Claim(lemmas.tail_lemma, {"d could be 0.15": {"least": 0.15}}),
    Claim(lemmas.last_step, {"t0 were 1": {"t0": 1}}, seeded=False),
    Claim(finite_time.union_over_steps, {"δ were replaced by δ/T": {"by_length": True}}),
    Claim(finite_time.dropped_term, {"r_max were 1": {"reward": 1.0}}, seeded=False),
)
STUDIES = (
    Claim(scaling.over_gamma, {"the corollary had the power 1": {"power": 1.0}}, partial(draw_scaling, "gamma")),
    Claim(scaling.over_rarest, {"the corollary had the power 0.5": {"power": 0.5}}, partial(draw_scaling, "rarest")),
    Claim(scaling.over_mixing, {"the corollary had the power -0.5": {"power": -0.5}}, partial(draw_scaling, "mixing")),
    Claim(scaling.rates_over_epsilon, {"the power were -1/ω": {"numerator": 1.0}}),
    Claim(scaling.rates_over_gamma, {"the other rate were the theorem's too": {"omegas": (None,)}}),
)


@dataclass(frozen=True)
class Options:
    """Check the paper's theorems on random finite MDPs, in about half a minute."""

    seed: Seed = 0
    """Seed of the MDPs and trajectories."""
    studies: bool = False
    """Run the longer studies instead (about two minutes): how steps grow with γ, μ_min, t_mix and learning rates."""
    what_if: bool = False
    """Change the world so that each verdict must be reversed, and print the verdicts then; draws no pictures."""
    runs: Path = Path("runs")
    """Folder whose subfolder theory gets the pictures."""

    def __post_init__(self) -> None:
        validate(self)


def run(options: Options, out: Console) -> None:
    """Check all statements, print a line for each, and draw the figures."""

    def show(finding: Finding, change: str = "") -> None:
        statement, measured = escape(f"{finding.statement}{change}"), escape(finding.measured)
        out.print(f"[bold]{statement}[/]: {measured}. [bold]{finding.verdict}[/]")

    for claim in STUDIES if options.studies else CLAIMS:
        if options.what_if:
            for change, arguments in claim.what_if.items():
                show(claim.found(options.seed, **arguments), f", if {change}")
            continue
        finding = claim.found(options.seed)
        show(finding)
        if claim.draw:
            folder = options.runs / "theory"
            with writing(folder):
                picture = claim.draw(finding, folder)
            out.print(f"  picture: {picture}", markup=False)
