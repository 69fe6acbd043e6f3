"""What an update costs, counted and not timed: a loss of speed shows here on any machine."""

import collections
import functools
import itertools
import re
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from specs import vectors

from smrl.algorithms import registry
from smrl.kernels import library
from smrl.smr.loop import initial_state, learner
from smrl.smr.rules import rule_of
from smrl.types import Algorithm, Discrete, Spec, Transition, UpdateContext

BATCH, OBS, ACTIONS = 256, 17, 6
CRITIC = (OBS + ACTIONS, 256, 256, 1)
ROUNDS = {"darc": 2, "redq": 20}  # one where it is not said
VECTORS = ("ddpg", "td3", "sac", "darc", "tqc", "redq", "dqn")


def forward(*sizes: int) -> int:
    """Multiplications and additions of a network on a batch."""
    return 2 * BATCH * sum(first * second for first, second in itertools.pairwise(sizes))


def backward(*sizes: int) -> int:
    """Those of the gradient of the inputs, layer by layer back to the first hidden one."""
    return forward(*sizes[1:])


def regression(*sizes: int) -> int:
    """Those of a network that learns: forward, gradients of all weights and of all hidden layers."""
    return 2 * forward(*sizes) + backward(*sizes)


def judgement(*sizes: int) -> int:
    """Those of a critic that an actor learns from: forward, and gradients back to its inputs."""
    return 2 * forward(*sizes)


def floor(name: str) -> int:
    """Multiplications and additions of the matrix products that the pseudo-code of an update asks for."""
    gaussian, deterministic = (OBS, 256, 256, 2 * ACTIONS), (OBS, 256, 256, ACTIONS)
    wide, pair, pair_actor = (23, 512, 512, 512, 25), (23, 400, 300, 1), (OBS, 400, 300, ACTIONS)
    target = {
        "ddpg": forward(*deterministic) + forward(*CRITIC),
        "td3": forward(*deterministic) + 2 * forward(*CRITIC),
        "sac": forward(*gaussian) + 2 * forward(*CRITIC),
        "darc": 2 * forward(*pair_actor) + 4 * forward(*pair),
        "tqc": forward(*gaussian) + 5 * forward(*wide),
        "redq": forward(*gaussian) + 2 * forward(*CRITIC),
        "dqn": forward(OBS, 256, 256, ACTIONS),
    }
    critics = {
        "ddpg": regression(*CRITIC),
        "td3": 2 * regression(*CRITIC),
        "sac": 2 * regression(*CRITIC),
        "darc": regression(*pair) + forward(*pair),
        "tqc": 5 * regression(*wide),
        "redq": 10 * regression(*CRITIC),
        "dqn": regression(OBS, 256, 256, ACTIONS),
    }
    actor = {
        "ddpg": regression(*deterministic) + judgement(*CRITIC),
        "td3": regression(*deterministic) + judgement(*CRITIC),
        "sac": regression(*gaussian) + 2 * judgement(*CRITIC),
        "darc": regression(*pair_actor) + judgement(*pair),
        "tqc": regression(*gaussian) + 5 * judgement(*wide),
        "redq": regression(*gaussian) + 10 * judgement(*CRITIC),
        "dqn": 0,
    }
    return target[name] + critics[name] + actor[name]


def spec(name: str) -> Spec:
    continuous = vectors(OBS, ACTIONS)
    return Spec(continuous.obs, Discrete(ACTIONS)) if name == "dqn" else continuous


@functools.cache
def algorithm(name: str) -> Algorithm[Any]:
    entry = registry.find(name)
    sizes = {"hidden": (256, 256)} if name == "dqn" else {}
    return entry.make(entry.config(**sizes), spec(name))


def compiled_update(name: str) -> Any:
    """One update in which all networks learn: TD3's second step, REDQ's last round."""
    rounds, key = ROUNDS.get(name, 1), jax.random.key(0)
    context = UpdateContext(
        jnp.asarray(2), jnp.asarray(rounds - 1), rounds, key, jnp.asarray(1)
    )  # constants: one branch is compiled
    update = jax.jit(lambda state, batch: algorithm(name).update(state, batch, context, key))
    return update.lower(jax.eval_shape(algorithm(name).init, key), spec(name).example(BATCH)).compile()


def in_kernels(text: str) -> int:
    """Multiplications and additions of the products by C++ kernels in a compiled program."""

    def shapes(text: str) -> list[list[int]]:
        return [[int(size) for size in match.split(",")] for match in re.findall(r"f32\[([\d,]+)\]", text)]

    target = r"custom_call_target=\"(smrl_mlp\w*)\""
    calls = re.findall(
        rf" = (.*) custom-call\(.*{target}, operand_layout_constraints={{(.*?)}}, api_version.*backend_config={{(.*)}}",
        text,
    )
    total = 0
    for results, name, arguments, config in calls:
        numbers = {name: int(value) for name, value in re.findall(r"(\w+) = (\d+)", config)}
        first, _, *rest = taken = shapes(arguments)
        if name == "smrl_mlp":
            weights = [shape for shape in taken[1:] if len(shape) == 2]
            share = shapes(results)[0][0] * numbers["layers"] / len(weights)  # of the members that is chosen
            total += int(share * forward_of(weights))
        else:
            weights = rest[first[0] * (numbers["layers"] - 1) :]
            above = [shape for index, shape in enumerate(weights) if index % numbers["layers"]]
            back = weights if numbers["inputs"] else above
            total += forward_of(back) + (forward_of(weights) if numbers["weights"] else 0)
    return total


def forward_of(weights: list[list[int]]) -> int:
    """Multiplications and additions of a batch's products with these matrices."""
    return 2 * BATCH * sum(rows * columns for rows, columns in weights)


def counted(name: str) -> float:
    compiled = compiled_update(name)
    return float(compiled.cost_analysis()["flops"]) + in_kernels(compiled.as_text())


PROGRAMS = [name if name in ("sac", "dqn") else pytest.param(name, marks=pytest.mark.slow) for name in VECTORS]


@pytest.mark.parametrize("name", PROGRAMS)
def test_an_update_computes_no_more_than_its_pseudo_code(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(library, "supports", lambda *_: False)
    assert counted(name) / floor(name) == pytest.approx(1, abs=0.03)


@pytest.mark.usefixtures("kernels")
@pytest.mark.parametrize("name", PROGRAMS)
def test_nor_do_its_kernels(name: str) -> None:
    assert counted(name) / floor(name) == pytest.approx(1, abs=0.03)


@pytest.mark.usefixtures("kernels")
def test_an_update_is_few_kernels() -> None:
    """In SAC, eight of networks, which take all members and layers at once, three of Adam and one of the targets."""
    names = re.findall(r"custom_call_target=\"smrl_(\w+)\"", compiled_update("sac").as_text())
    assert collections.Counter(names) == {"mlp": 5, "mlp_backward": 3, "adam": 3, "polyak": 1}


def whole_step(name: str) -> tuple[Any, Any, Transition]:
    """Learning with reuse 3, its state, and batches."""
    rule, rounds = rule_of(3), algorithm(name).rounds
    example = spec(name).example(BATCH)
    batches = Transition(*(np.stack([field] * rounds) for field in example))
    learned = jax.jit(lambda key: initial_state(algorithm(name), rule, key))(jax.random.key(0))
    return jax.jit(learner(algorithm(name), rule), donate_argnums=0), learned, batches


def test_a_learning_step_stays_on_the_device_and_takes_over_its_state() -> None:
    learn, learned, batches = whole_step("sac")
    size = sum(leaf.nbytes for leaf in jax.tree.leaves(learned))
    weights = sum(
        leaf.size for leaf in jax.tree.leaves((learned.algorithm.actor.params, learned.algorithm.critics.params))
    )
    targets = sum(leaf.size for leaf in jax.tree.leaves(learned.algorithm.target_critics))
    assert size == pytest.approx(4 * (3 * weights + targets), rel=1e-3)  # weights, two moments of Adam, target networks
    compiled = learn.lower(learned, batches, 1, 1, jax.random.key(0)).compile()
    text = compiled.as_text()
    assert not any(f" {word}(" in text for word in ("infeed", "outfeed", "send", "recv"))
    assert "callback" not in text
    memory = compiled.memory_analysis()
    assert memory.alias_size_in_bytes == pytest.approx(size, rel=1e-2)  # the state is updated in place
    assert memory.temp_size_in_bytes < 6 * size


def test_a_batch_moves_to_the_device_once() -> None:
    """With everything on the device already, no step moves anything, and none compiles again."""
    learn, learned, batches = whole_step("sac")
    on_device = jax.device_put((batches, jnp.asarray(1), jax.random.key(0)))
    learned, _ = learn(learned, on_device[0], on_device[1], on_device[1], on_device[2])
    with jax.transfer_guard("disallow"):
        for _ in range(3):
            learned, _ = learn(learned, on_device[0], on_device[1], on_device[1], on_device[2])
    assert learn._cache_size() == 1
