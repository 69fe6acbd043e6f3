"""Diagnostics compared with NumPy in float64, and their columns in a run."""

import csv
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from killing import outcome
from specs import vectors

import smrl
from smrl.algorithms.ddpg import DDPG, ddpg
from smrl.algorithms.registry import find
from smrl.errors import SmrlError
from smrl.settings import make_settings
from smrl.smr.auto import Probe
from smrl.training.diagnostics import Diagnostics, dormant_share, effective_rank, hidden_activations
from smrl.types import Transition

SHORT: dict[str, Any] = {
    **{"warmup": 60, "max_episode_steps": 12, "eval_every": 50, "eval_episodes": 1, "batch_size": 8, "quiet": True},
    **{"actor_hidden": (8, 8), "critic_hidden": (8, 8), "checkpoint_seconds": 1e9, "reuse": 1},
}
NORMS = {f"{network}_{kind}_norm" for network in ("actor", "critic") for kind in ("weight", "gradient")}
OF_UNITS = {"dormant_actor", "dormant_critic", "critic_rank"}


def random_batch(size: int, seed: int, obs: int = 3, actions: int = 2) -> Transition:
    draw = np.random.default_rng(seed)
    fields = (draw.normal(size=shape) for shape in ((size, obs), (size, actions), (size,), (size,), (size, obs)))
    return Transition(*(field.astype(np.float32) for field in fields))


def test_values_of_ddpg_are_those_of_numpy() -> None:
    """Everything by its definition from the parameters, in float64; the gradient of the critic by hand."""
    spec, batch, held_out = vectors(3, 2), random_batch(64, 1), random_batch(64, 2)
    algorithm = ddpg(DDPG(actor_hidden=(16, 8), critic_hidden=(12, 10)), spec)
    state = algorithm.init(jax.random.key(0))
    for seed in range(3):  # so that Adam has seen gradients
        context = smrl.types.UpdateContext(jnp.int32(1), jnp.int32(0), 1, jax.random.key(0), jnp.int32(0))
        state, _ = jax.jit(algorithm.update)(state, random_batch(64, seed), context, jax.random.key(seed))
    settings = make_settings("ddpg", "Pendulum-v1", actor_hidden=(16, 8), critic_hidden=(12, 10))
    found = Diagnostics(settings, algorithm)(state, batch, -4.0, Probe(batch, held_out), 7, jax.random.key(3))

    def arrays(params: Any) -> list[np.ndarray]:
        mlp = params["params"]["MLP_0"]
        return [np.asarray(mlp[f"Dense_{i}"][name], np.float64) for i in range(3) for name in ("kernel", "bias")]

    def forward(weights: list[np.ndarray], x: np.ndarray) -> list[np.ndarray]:
        outputs = [x.astype(np.float64)]
        for i in range(3):
            z = outputs[-1] @ weights[2 * i] + weights[2 * i + 1]
            outputs.append(np.maximum(z, 0) if i < 2 else z)
        return outputs

    def td_error(batch: Transition) -> tuple[np.ndarray, list[np.ndarray]]:
        next_action = np.tanh(forward(arrays(state.target_actor), batch.next_obs)[-1])
        next_q = forward(target, np.concatenate([batch.next_obs, next_action], 1))[-1][:, 0]
        layers = forward(critic, np.concatenate([batch.obs, batch.action], 1))
        return layers[-1][:, 0] - (batch.reward + batch.discount * next_q), layers

    actor, critic, target = arrays(state.actor.params), arrays(state.critics.params[0]), arrays(state.target_critics[0])
    errors, layers = td_error(batch)
    gradients, back = [], (2 * errors / len(errors))[:, None]
    for i in (2, 1, 0):
        gradients += [layers[i].T @ back, back.sum(axis=0)]
        back = (back @ critic[2 * i].T) * (layers[i] > 0)
    hidden = {"critic": layers[1:3], "actor": forward(actor, batch.obs)[1:3]}
    for name, its in hidden.items():
        dormant = [np.abs(h).mean(0) <= 0.025 * np.abs(h).mean(0).mean() for h in its]
        assert found[f"dormant_{name}"] == pytest.approx(np.concatenate(dormant).mean())
    values = np.sqrt(np.linalg.eigvalsh(hidden["critic"][-1].T @ hidden["critic"][-1])[::-1].clip(0))
    assert found["critic_rank"] == next(k for k in range(1, 11) if values[:k].sum() >= 0.99 * values.sum())

    def norm(arrays: list[np.ndarray]) -> float:
        return float(np.sqrt(sum((array**2).sum() for array in arrays)))

    expected = {
        "actor_weight_norm": norm(actor),
        "critic_weight_norm": norm(critic),
        "critic_gradient_norm": norm(gradients),
        "q_mean": layers[-1].mean(),
        "q_over_return": layers[-1].mean() / -4.0,
        "td_error_ratio": np.sqrt((td_error(held_out)[0] ** 2).mean() / (errors**2).mean()),
    }
    for name, value in expected.items():
        assert found[name] == pytest.approx(value, rel=2e-4), name
    assert found.keys() == expected.keys() | NORMS | OF_UNITS


def test_dormant_units_and_rank() -> None:
    draw = np.random.default_rng(0)
    layer = np.abs(draw.normal(size=(100, 20)))
    layer[:, :5] = 0  # dead
    layer[:, 5] *= 0.01  # nearly dead
    assert dormant_share([layer, np.ones((100, 4))]) == pytest.approx(6 / 24)
    features = draw.normal(size=(100, 3)) @ draw.normal(size=(3, 16))
    assert effective_rank(features) == 3
    assert effective_rank(np.zeros((4, 4))) == 0


@pytest.mark.slow
@pytest.mark.parametrize("name", ["td3", "sac", "tqc", "redq", "darc"])
@pytest.mark.parametrize("options", [{}, {"layer_norm": True}, {"network": "simba"}], ids=str)
def test_layers_of_critics_compute_their_values(name: str, options: dict[str, Any]) -> None:
    """The layers that are looked into are those of q_values."""
    algorithm = find(name).make(find(name).config(critic_hidden=(8, 8), **options), vectors(3, 2))
    state, batch = algorithm.init(jax.random.key(0)), random_batch(5, 0)
    assert algorithm.q_values is not None
    assert algorithm.critic_networks is not None
    joined = np.concatenate([batch.obs, batch.action], axis=1)
    networks = algorithm.critic_networks(jax.device_get(state))
    last = [hidden_activations(layers, joined)[-1] @ layers[-1].weights + layers[-1].bias for layers in networks]  # type: ignore[union-attr]
    values = np.asarray(algorithm.q_values(state, batch.obs, batch.action))
    np.testing.assert_allclose(np.stack(last).mean(-1), values, rtol=1e-4, atol=1e-5)


@pytest.mark.slow  # tests/training/test_hold_out_runs.py has a run with held-out episodes
def test_a_run_without_held_out_episodes(tmp_path: Path) -> None:
    runs = [
        smrl.train("sac", "Pendulum-v1", steps=100, runs=tmp_path / str(diagnostics), diagnostics=diagnostics, **SHORT)
        for diagnostics in (True, False)
    ]
    with (runs[0].path / "training.csv").open() as file:
        last = list(csv.DictReader(file))[-1]
    assert NORMS | OF_UNITS | {"q_mean", "q_over_return"} <= last.keys()
    assert "td_error_ratio" not in last
    assert outcome("Pendulum-v1", tmp_path / "True") == outcome("Pendulum-v1", tmp_path / "False")


def test_real_time_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SmrlError, match="--diagnostics measures while the environment waits"):
        smrl.train("sac", "Pendulum-v1", real_time=True, control_period=0.01, diagnostics=True, runs=tmp_path)
