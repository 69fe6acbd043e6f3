"""SAC with normalised and residual networks, projection and AdamW against an update in NumPy float64."""

import functools
from itertools import count
from typing import Any

import jax
import numpy as np
import numpy_reference_critics as reference
import pytest
import test_numpy_reference as common
from test_numpy_reference import RATES, SMALL, Setup, Subject, assert_small, compare_one_update, context, random_batch

from smrl.algorithms.registry import find

full_precision = common.full_precision
BATCH = 40  # more than the rows below which the dense kernels leave the work to XLA
NORMALISED = RATES | {"layer_norm": True, "weight_projection": True, "target_entropy_factor": -0.5}
SIMBA = RATES | {"network": "simba", "weight_decay": 0.1, "weight_decay_form": "decoupled"}
SUBJECTS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {  # options of smrl and of NumPy
    "normalised": (NORMALISED | {"actor_hidden": (16, 12), "critic_hidden": (12, 24, 16)}, {"projects": True}),
    "simba": (SIMBA | {"actor_hidden": (6,), "critic_hidden": (7, 7)}, {"decay": 0.1, "target_entropy": -3.0}),
    "simba, projected": (
        SIMBA | {"actor_hidden": (6, 6), "critic_hidden": (7,), "weight_projection": True, "target_entropy": -1.5},
        {"decay": 0.1, "projects": True, "target_entropy": -1.5},
    ),
}


@functools.cache
def set_up(name: str) -> Setup:
    """Some updates in JAX first, so that moments, targets and temperature are those of learning."""
    options, switches = SUBJECTS[name]
    entry = find("sac")
    algorithm = entry.make(entry.config(**options), SMALL)
    subject = Subject(
        "sac",
        options,
        SMALL,
        BATCH,
        reference.Settings(**RATES | switches),
        draws=lambda batch, _, key: {"noise": common.noise_of("sac", batch, key)},
        update=reference.sac,
        nearest_branch=reference.nearest_branch,
        in_numpy=common.in_numpy,
    )
    update, state = jax.jit(algorithm.update, compiler_options=common.FAST), common.start(algorithm, SMALL)
    for step in range(1, common.WARM_UP + 1):
        state, _ = update(state, random_batch(step, BATCH, SMALL), context(step), jax.random.key(10 + step))
    batches = (random_batch(seed, BATCH, SMALL) for seed in count(100))
    batch = next(batch for batch in batches if not common.near_a_branch(subject, state, batch, 1))
    return Setup(subject, algorithm, update, state, batch)


@pytest.mark.parametrize("name", SUBJECTS)
def test_one_update_is_that_of_numpy(name: str) -> None:
    assert_small(compare_one_update(set_up(name), context(7)))


@pytest.mark.parametrize("name", SUBJECTS)
def test_gradients_by_hand_are_finite_differences(name: str) -> None:
    state, draws = common.in_numpy(set_up(name).state), np.random.default_rng(0)
    network, x = state.critics[0].values, draws.normal(size=(5, 8))
    weights = draws.normal(size=(5, 1))

    def loss(values: Any) -> tuple[float]:
        return (float((reference.forward(values, x)[0] * weights).sum()),)

    gradient, by_x = reference.backward(network, reference.forward(network, x)[1], weights)
    for array, slope in enumerate(gradient):
        direction = draws.normal(size=slope.shape)
        direction /= np.linalg.norm(direction)
        difference = common.central_difference(loss, network, array, direction)
        assert difference == pytest.approx(float((slope * direction).sum()), rel=1e-5, abs=1e-7)
    moved = [reference.forward(network, x + sign * 5e-6 * by_x)[0] for sign in (1.0, -1.0)]
    change = float(((moved[0] - moved[1]) * weights).sum() / 1e-5)
    assert change == pytest.approx(float((by_x * by_x).sum()), rel=1e-5)
