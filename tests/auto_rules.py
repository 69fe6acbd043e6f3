"""A rule and an algorithm of tests, named as a user's are."""

from dataclasses import replace

from smrl import Auto
from smrl.algorithms.common import SoftState
from smrl.algorithms.sac import SAC, sac
from smrl.types import Algorithm, Key, Metrics, Spec, Transition, UpdateContext

quick = Auto(ceiling=4, start=2, every=10)


def silent(config: SAC, spec: Spec) -> Algorithm[SoftState]:
    """SAC that reports nothing."""
    base = sac(config, spec)

    def update(state: SoftState, batch: Transition, context: UpdateContext, key: Key) -> tuple[SoftState, Metrics]:
        return base.update(state, batch, context, key)[0], {}

    return replace(base, update=update)
