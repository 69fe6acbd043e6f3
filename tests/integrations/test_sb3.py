"""Reuse in the classes of Stable-Baselines3, sb3-contrib and SBX, by the released packages."""

import importlib
import itertools
import re
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from smrl.errors import SmrlError
from smrl.integrations.sb3 import with_reuse

PAGE = (Path(__file__).parents[2] / "docs" / "integrations.md").read_text()
CONTINUOUS = ["stable_baselines3:SAC", "stable_baselines3:TD3", "stable_baselines3:DDPG", "sb3_contrib:TQC"]
CONTINUOUS += ["sb3_contrib:CrossQ", "sbx:SAC", "sbx:TD3", "sbx:DDPG", "sbx:TQC", "sbx:CrossQ"]
DISCRETE = ["stable_baselines3:DQN", "sb3_contrib:QRDQN", "sbx:DQN"]
SMALL = {"learning_starts": 20, "batch_size": 8, "buffer_size": 2_000, "seed": 0, "device": "cpu"}

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::UserWarning")


def find(name: str) -> Any:
    package, _, kind = name.partition(":")
    return getattr(pytest.importorskip(package), kind)


def make(kind: Any, **settings: Any) -> Any:
    """Return a small model of a class that has not learned yet."""
    is_discrete = "DQN" in kind.__name__
    usual = {"train_freq": 1, "gradient_steps": 1, "policy_kwargs": {"net_arch": [16]}}
    return kind("MlpPolicy", "CartPole-v1" if is_discrete else "Pendulum-v1", **SMALL | usual | settings)


def parameters(model: Any) -> list[np.ndarray]:
    """Return all parameters of a model, with targets and states of the optimisers, as arrays."""
    jax = importlib.import_module("jax")
    states = [value for name, value in sorted(vars(model.policy).items()) if name.endswith("_state")]  # of SBX
    leaves = jax.tree.leaves([states, getattr(model, "ent_coef_state", None), model.get_parameters()])
    return [np.asarray(getattr(leaf, "detach", lambda leaf=leaf: leaf)()) for leaf in leaves]


def assert_same(one: Any, other: Any) -> None:
    ours, theirs = parameters(one), parameters(other)
    assert len(ours) == len(theirs) > 4
    for mine, yours in zip(ours, theirs, strict=True):
        np.testing.assert_array_equal(mine, yours)


def actor_updates(model: Any) -> int:
    """Return how many gradient steps the actor has made."""
    if hasattr(model.policy, "actor_state"):
        return int(model.policy.actor_state.step)
    states = model.actor.optimizer.state_dict()["state"].values()
    return max((int(state["step"]) for state in states), default=0)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["stable_baselines3:SAC", "sb3_contrib:QRDQN"])
def test_the_batches_of_a_step_are_identical_and_the_next_differ(name: str) -> None:
    model, seen = make(with_reuse(find(name), times=3)), []
    critic = model.quantile_net if "DQN" in name else model.critic
    critic.register_forward_pre_hook(lambda _, given: seen.append(given[0].numpy().copy()))
    model.learn(25)
    seen = [batch for batch in seen if len(batch) > 1]  # QR-DQN also acts by this network
    per_step = 3 * (1 if "DQN" in name else 2)  # SAC's critics also judge actions of the policy
    assert len(seen) == 5 * per_step
    steps = [seen[start : start + per_step] for start in range(0, len(seen), per_step)]
    for batches in steps:
        for batch in batches:
            np.testing.assert_array_equal(batch, batches[0])
    for batches, following in itertools.pairwise(steps):
        assert not np.array_equal(batches[0], following[0])


@pytest.mark.slow
def test_the_batches_of_sbx(monkeypatch: pytest.MonkeyPatch) -> None:
    model, seen = make(with_reuse(find("sbx:SAC"), times=3)), []
    compiled = model._train

    def train(*given: Any) -> Any:
        seen.append((given[2], given[3]))
        return compiled(*given)

    monkeypatch.setattr(model, "_train", train)
    model.learn(25)
    assert len(seen) == 5
    for gradient_steps, data in seen:
        assert gradient_steps == 3
        for part in data:
            first, *others = np.split(np.asarray(part), 3)
            assert len(first) == SMALL["batch_size"]
            for other in others:
                np.testing.assert_array_equal(other, first)
    for (_, data), (_, following) in itertools.pairwise(seen):
        assert not np.array_equal(data.observations, following.observations)


@pytest.mark.slow
@pytest.mark.parametrize("name", CONTINUOUS + DISCRETE)
def test_one_use_is_the_unmodified_class(name: str) -> None:
    """Also with several batches per call, of which not all move the targets or, with TD3, the actor."""
    kind = find(name)
    has_interval = name in ("stable_baselines3:SAC", "sb3_contrib:TQC")
    more = {"target_update_interval": 2} if has_interval else {}
    models = [make(one, gradient_steps=3, **more).learn(40) for one in (kind, with_reuse(kind, times=1))]
    assert_same(*models)
    assert models[0]._n_updates == models[1]._n_updates == 60


@pytest.mark.slow
@pytest.mark.parametrize("name", ["stable_baselines3:TD3", "sb3_contrib:CrossQ", "sbx:TD3", "sbx:TQC"])
def test_the_policy_delay_counts_batches(name: str) -> None:
    """All updates on a batch update the actor, or none; also where a schedule changes their number."""
    model = make(with_reuse(find(name), times="4:25,1"), policy_delay=2)
    counts = []
    for step in range(21, 29):
        model.learn(step if step == 21 else 1, reset_num_timesteps=step == 21)
        counts.append(actor_updates(model))
    assert model.num_timesteps == 28
    assert counts == [0, 4, 4, 8, 8, 9, 9, 10]
    assert model._n_updates == 5 * 4 + 3


@pytest.mark.slow
@pytest.mark.parametrize("name", ["stable_baselines3:TD3", "sbx:SAC"])
def test_save_and_load(name: str, in_tmp_path: Path) -> None:
    base = find(name)
    kind = with_reuse(base, times="4:1000,1")
    model = make(kind, policy_delay=2).learn(25)
    model.save("model")
    model.save_replay_buffer("buffer")
    loaded = kind.load("model", env=model.get_env(), device="cpu")
    loaded.load_replay_buffer("buffer")
    assert_same(loaded, model)
    logger = importlib.import_module("stable_baselines3.common.logger")
    for one in (model, loaded):
        one.set_random_seed(7)
        one.set_logger(logger.configure(None, []))
        one.train(gradient_steps=3, batch_size=8)
    assert_same(loaded, model)
    assert loaded._n_updates == model._n_updates == (5 + 3) * 4
    assert actor_updates(loaded) == actor_updates(model) == 4 * 4

    plain = base.load("model", device="cpu")  # the file is an ordinary one
    assert plain._n_updates == 20
    make(base).learn(25).save("plain")
    continued = kind.load("plain", env=model.get_env(), device="cpu").learn(3, reset_num_timesteps=False)
    assert continued._n_updates == 5 + 3 * 4


@pytest.mark.slow
def test_hindsight_buffers_of_several_environments() -> None:
    sb3 = pytest.importorskip("stable_baselines3")
    env_util = importlib.import_module("stable_baselines3.common.env_util")
    flipping = importlib.import_module("stable_baselines3.common.envs").BitFlippingEnv
    envs = env_util.make_vec_env(lambda: flipping(n_bits=4, continuous=True), n_envs=2)
    settings = SMALL | {"train_freq": (3, "step"), "gradient_steps": 2, "learning_starts": 30}
    settings |= {"replay_buffer_class": sb3.HerReplayBuffer}
    for kind in (sb3.SAC, find("sbx:SAC")):
        model = with_reuse(kind, times=4)("MultiInputPolicy", envs, **settings).learn(60)
        assert model.num_timesteps == 60
        assert model._n_updates == 5 * 2 * 4
        assert type(model.replay_buffer) is sb3.HerReplayBuffer


@pytest.mark.slow
def test_a_failure_in_training_leaves_the_model_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    td3 = find("stable_baselines3:TD3")
    model = make(with_reuse(td3, times=3)).learn(23)

    def fail(*_: Any) -> None:
        raise MemoryError

    monkeypatch.setattr(model.critic.optimizer, "step", fail)
    buffer = model.replay_buffer
    with pytest.raises(MemoryError):
        model.train(gradient_steps=1, batch_size=8)
    assert model.replay_buffer is buffer
    assert model.policy_delay == 2


@pytest.mark.slow
def test_reuse_learns_pendulum_sooner() -> None:
    evaluate = pytest.importorskip("stable_baselines3.common.evaluation").evaluate_policy
    sac, returns = find("stable_baselines3:SAC"), {}
    for times in (1, 10):
        model = make(with_reuse(sac, times), learning_starts=200, batch_size=64, policy_kwargs={"net_arch": [64, 64]})
        model.learn(1_500)
        env = model.get_env()
        env.seed(1_000)
        returns[times] = evaluate(model, env, n_eval_episodes=10)[0]
    assert returns[10] > -300 > returns[1], returns


@pytest.mark.slow
def test_refusals() -> None:
    sb3 = pytest.importorskip("stable_baselines3")
    bad: list[tuple[Any, Any, str]] = [
        (sb3.PPO, 10, "off-policy classes"),
        ("SAC", 10, "off-policy classes"),
        (sb3.SAC, 0, "at least 1"),
        (sb3.SAC, "ten", "not a reuse rule"),
        (sb3.SAC, "realtime", "control period"),
        (sb3.SAC, None, "must be a number"),
        (with_reuse(sb3.SAC), 10, "has reuse already"),
    ]
    for kind, times, message in bad:
        with pytest.raises(SmrlError, match=message):
            with_reuse(kind, times)
    with pytest.raises(SmrlError, match="target_update_interval must be 1"):
        make(with_reuse(sb3.SAC, 2), target_update_interval=2)
    make(with_reuse(sb3.DQN, 2), target_update_interval=50)


def test_without_stable_baselines3(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name.partition(".")[0] == "stable_baselines3"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "stable_baselines3", None)
    with pytest.raises(SmrlError, match=r'pip install "smrl\[sb3\]"'):
        with_reuse(object)


@pytest.mark.slow
def test_the_page(in_tmp_path: Path) -> None:
    find("stable_baselines3:SAC"), find("sbx:SAC")
    blocks = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    assert len(blocks) == 2
    for block in blocks:
        exec(re.sub(r"learn\([\d_]+\)", "learn(120)", block), {})
    assert Path("pendulum.zip").exists()
