"""The PyBullet tasks, compared with a slow reference that follows their description."""

import hashlib
import math
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.error import DependencyNotInstalled, Error, ResetNeeded
from gymnasium.utils import seeding
from gymnasium.utils.env_checker import check_env

from smrl.envs.suites import bullet
from smrl.envs.suites.bullet import PlanarEnv, data_path, simulator
from smrl.errors import SmrlError

pytest.importorskip("pybullet_data", reason="needs the extra pybullet")
bullet.register()

IDS = HOPPER, WALKER, CHEETAH, ANT = tuple(bullet.TASKS)
ROOT = ("ignore1", "ignore2", "ignore3"), ("ignorex", "ignorez", "ignorey")
THIGH_LEG_FOOT = ["thigh_joint", "leg_joint", "foot_joint"]
Step = tuple[np.ndarray, float, bool]


@dataclass(frozen=True)
class Facts:
    """Description of a task."""

    model: str
    obs_length: int
    torques: Mapping[str, float]  # by the names of the joints, in the order of the actions


FACTS = {
    HOPPER: Facts("hopper", 11, dict.fromkeys(THIGH_LEG_FOOT, 75.0)),
    WALKER: Facts(
        "walker2d",
        17,
        dict(zip(THIGH_LEG_FOOT, (40, 40, 12), strict=True))
        | {"thigh_left_joint": 40, "leg_left_joint": 40, "foot_left_joint": 12},
    ),
    CHEETAH: Facts(
        "half_cheetah", 17, {"bthigh": 120, "bshin": 90, "bfoot": 60, "fthigh": 140, "fshin": 60, "ffoot": 30}
    ),
    ANT: Facts("ant", 111, {f"{part}_{leg}": 250.0 for leg in (1, 2, 3, 4) for part in ("hip", "ankle")}),
}


class Reference:
    """An episode in a newly loaded world, simulated joint by joint without regard to speed."""

    def __init__(self, name: str, seed: int, repairs: tuple[str, ...] = ()) -> None:
        self.name, self.repairs, self.facts, self.bullet = name, repairs, FACTS[name], simulator()
        self.client = self.bullet.connect(self.bullet.DIRECT)
        self.load()
        infos = [self.call("getJointInfo", 1, joint) for joint in range(self.call("getNumJoints", 1))]
        self.links = range(len(infos))
        self.joints = {info[1].decode(): info[0] for info in infos if not info[1].startswith(b"jointfix")}
        self.limits = {info[1].decode(): info[8:10] for info in infos}
        self.torso = {info[12]: info[0] for info in infos}.get(b"torso")
        for joint in self.links:
            self.switch_off(joint)
        draw, _ = seeding.np_random(seed)
        for joint in self.joints.values():
            self.call("resetJointState", 1, joint, draw.uniform(-0.1, 0.1), 0)
            self.switch_off(joint)
        self.start, self.place = self.obs()[0], self.progressed()

    def call(self, name: str, *arguments: Any, **options: Any) -> Any:
        return getattr(self.bullet, name)(*arguments, **options, physicsClientId=self.client)

    def load(self) -> None:
        self.call("setGravity", 0, 0, -9.8)
        self.call("setDefaultContactERP", 0.9)
        self.call("setPhysicsEngineParameter", fixedTimeStep=0.0165, numSubSteps=4, numSolverIterations=5)
        self.call("setPhysicsEngineParameter", deterministicOverlappingPairs=1)
        self.call("loadSDF", f"{data_path()}/plane_stadium.sdf")
        self.call("changeDynamics", 0, -1, lateralFriction=0.8, restitution=0.5)
        flags = self.bullet.URDF_USE_SELF_COLLISION | self.bullet.URDF_USE_SELF_COLLISION_EXCLUDE_ALL_PARENTS
        self.call("loadMJCF", f"{data_path()}/mjcf/{self.facts.model}.xml", flags=flags)
        if self.name == CHEETAH:
            more = {"lateralFriction": 0.8, "spinningFriction": 0.1, "rollingFriction": 0.1, "restitution": 0.5}
            repaired = [(1, link) for link in range(-1, self.call("getNumJoints", 1))]
            for body, link in repaired if self.repairs else [(0, -1)]:
                self.call("changeDynamics", body, link, **more)

    def switch_off(self, joint: int) -> None:
        control = self.bullet.POSITION_CONTROL
        self.call("setJointMotorControl2", 1, joint, control, positionGain=0.1, velocityGain=0.1, force=0)

    def step(self, action: np.ndarray) -> Step:
        torques = dict.fromkeys(self.joints, 0.0)
        for joint, torque, wanted in zip(self.facts.torques, self.facts.torques.values(), action, strict=True):
            torques[joint] = torque * float(np.clip(wanted, -1, 1))
        for joint, torque in torques.items():
            self.call("setJointMotorControl2", 1, self.joints[joint], self.bullet.TORQUE_CONTROL, force=torque)
        self.call("stepSimulation")
        obs = self.obs()
        before, self.place = self.place, self.progressed()
        velocity = (self.place - before) / 0.0165
        square = float(np.square(action, dtype=np.float64).sum())
        if self.name == ANT:
            is_alive = obs[0] + ("repair_alive" not in self.repairs) * self.start > 0.26
            return obs, velocity + (1 if is_alive else -1) - 0.1 * self.at_limit(), not is_alive
        if self.name == CHEETAH:
            return obs, velocity - 0.1 * square, False
        low, high, most = (-0.3, np.inf, 0.2) if self.name == HOPPER else (-0.2, 1.0, 1.0)
        is_fine = (np.abs(obs[2:]) < 100).all() and low < obs[0] < high and -most < obs[1] < most
        return obs, velocity + 1 - 1e-3 * square, not is_fine

    def obs(self) -> np.ndarray:
        positions, velocities = np.array([self.call("getJointState", 1, joint)[:2] for joint in self.joints.values()]).T
        if self.name in (HOPPER, WALKER):
            velocities = velocities.clip(-10, 10)
        if self.name != ANT:
            return np.concatenate([positions[1:], velocities])
        place, turn = self.call("getBasePositionAndOrientation", 1)
        velocity, spin = self.call("getBaseVelocity", 1)
        return np.concatenate([place[2:], turn, positions, velocity, spin, velocities, np.zeros(84)])

    def progressed(self) -> float:
        """Return how far the robot has come; Ant's goal is at (1000, 0)."""
        if self.name != ANT:
            return float(self.call("getLinkState", 1, self.torso)[0][0])
        parts = [self.call("getBasePositionAndOrientation", 1)[0]]
        parts += [self.call("getLinkState", 1, link)[0] for link in self.links]
        assert len(parts) == 21
        if "repair_progress" not in self.repairs:
            parts.append(self.call("getBasePositionAndOrientation", 0)[0])
        x, y, _ = np.mean(parts, axis=0)
        return -math.hypot(1000 - x, y)

    def at_limit(self) -> int:
        count = 0
        for name, joint in self.joints.items():
            lower, upper = self.limits[name]
            scaled = 2 * (self.call("getJointState", 1, joint)[0] - (lower + upper) / 2) / (upper - lower)
            count += abs(scaled) > 0.99
        return count


def made(name: str, **options: Any) -> Any:
    return gymnasium.make(name, disable_env_checker=True, **options)


def actions(name: str, count: int, seed: int = 0, most: float = 1.0) -> np.ndarray:
    size = len(FACTS[name].torques)
    return np.random.default_rng(seed).uniform(-most, most, (count, size)).astype(np.float32)


def episodes(env: Any, name: str, seeds: range, steps: int = 60) -> Iterator[list[Any]]:
    """Yield all results of the same actions in every episode, which ends only after ``steps``."""
    for seed in seeds:
        yield [env.reset(seed=seed)[0].tobytes()]
        for action in actions(name, steps):
            obs, *rest, _ = env.unwrapped.step(action)
            yield [obs.tobytes(), *rest]


def fingerprint(name: str, seed: int) -> str:
    env = made(name)
    text = repr(list(episodes(env, name, range(seed, seed + 1))))
    env.close()
    return hashlib.sha256(text.encode()).hexdigest()


@pytest.mark.filterwarnings("ignore:.*WARN. A Box observation space m")  # infinite bounds
@pytest.mark.parametrize("name", IDS)
def test_gymnasium_checker_passes(name: str) -> None:
    env = gymnasium.make(name, render_mode="rgb_array")
    check_env(env.unwrapped)
    assert env.spec
    assert env.spec.max_episode_steps == 1000
    assert env.observation_space.shape == (FACTS[name].obs_length,)
    assert env.observation_space.dtype == np.float32
    assert env.action_space == gymnasium.spaces.Box(-1.0, 1.0, (len(FACTS[name].torques),))
    env.close()


CASES = [
    *((name, ()) for name in IDS),
    (CHEETAH, ("repair_friction",)),
    (ANT, ("repair_alive",)),
    (ANT, ("repair_progress",)),
    (ANT, ("repair_alive", "repair_progress")),
]


@pytest.mark.parametrize(("name", "repairs"), CASES)
def test_episodes_equal_the_reference(name: str, repairs: tuple[str, ...]) -> None:
    env = made(name, **dict.fromkeys(repairs, True)).unwrapped
    ends = []
    for seed in range(4):
        facts = Reference(name, seed, repairs)
        obs, _ = env.reset(seed=seed)
        np.testing.assert_array_equal(obs, facts.obs().astype(np.float32))
        for action in actions(name, 80, seed, most=0.2 if seed % 2 else 2.0):  # beyond the bounds, to be clipped
            obs, reward, terminated, truncated, _ = env.step(action)
            expected, expected_reward, ends_here = facts.step(action)
            np.testing.assert_array_equal(obs, expected.astype(np.float32))
            assert reward == pytest.approx(expected_reward, abs=1e-7)  # parts are summed in a different order
            assert (terminated, truncated) == (ends_here, False)
            ends.append(terminated)
        facts.call("disconnect")
    assert any(ends) == (name in (HOPPER, WALKER) or "repair_alive" in repairs)
    env.close()


@pytest.mark.parametrize("name", IDS)
def test_joints_start_near_zero_and_at_rest(name: str) -> None:
    env = made(name).unwrapped
    starts = []
    for seed in range(50):
        obs, info = env.reset(seed=seed)
        positions, velocities = env.world.joint_states()
        assert info == {}
        assert not any(velocities)
        assert not obs[len(positions) - 1 :].any() if name != ANT else not obs[13:].any()
        starts.append(positions)
    assert np.shape(starts) == (50, len(FACTS[name].torques) + 3 * (name != ANT))
    assert np.abs(starts).max() <= 0.1
    assert (np.ptp(starts, axis=0) > 0.17).all()
    if name == ANT:
        np.testing.assert_array_equal(obs[:5], [0.75, 0, 0, 0, 1])
    env.close()


POSTURES = [
    (HOPPER, "ignore2", -0.35, True),
    (HOPPER, "ignore2", 1.5, False),
    (HOPPER, "ignore3", 0.25, True),
    (HOPPER, "ignore3", -0.25, True),
    (HOPPER, "ignore3", 0.15, False),
    (HOPPER, "thigh_joint", 200.0, True),
    (WALKER, "ignorez", -0.25, True),
    (WALKER, "ignorez", 1.1, True),
    (WALKER, "ignorez", 0.9, False),
    (WALKER, "ignorey", -1.1, True),
    (WALKER, "ignorey", 0.9, False),
    (WALKER, "foot_left_joint", -200.0, True),
    (CHEETAH, "ignorez", 5.0, False),
    (CHEETAH, "ignorey", 3.0, False),
]


@pytest.mark.parametrize(("name", "joint", "position", "ends"), POSTURES)
def test_termination_by_posture(name: str, joint: str, position: float, ends: bool) -> None:
    env = made(name).unwrapped
    env.reset(seed=0)
    float_freely(env)
    place(env, joint, position)
    assert env.step(np.zeros(len(FACTS[name].torques)))[2] == ends
    env.close()


def float_freely(env: Any) -> None:
    """Remove gravity and contacts with the ground."""
    world = env.world
    world.bullet.setGravity(0, 0, 0, physicsClientId=world.client)
    for link in range(-1, world.bullet.getNumJoints(1, physicsClientId=world.client)):
        world.bullet.setCollisionFilterPair(0, 1, -1, link, 0, physicsClientId=world.client)


def place(env: Any, name: str, position: float) -> None:
    world = env.world
    for joint in world.joints:
        is_named = world.bullet.getJointInfo(1, joint, physicsClientId=world.client)[1] == name.encode()
        world.bullet.resetJointState(1, joint, position if is_named else 0.0, 0, physicsClientId=world.client)


@pytest.mark.parametrize("name", [HOPPER, WALKER, ANT])
def test_nan_and_infinity_terminate(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    env = made(name).unwrapped
    env.reset(seed=0)
    positions, velocities = env.world.joint_states()
    action = np.zeros(len(FACTS[name].torques))
    broken: list[tuple[tuple[float, ...], tuple[float, ...]]] = [
        ((*positions[:-1], np.nan), velocities),
        (positions, (*velocities[:-1], np.nan)),
        ((*positions[:-1], np.inf), velocities),
    ]
    for states in broken:
        monkeypatch.setattr(env.world, "joint_states", lambda states=states: states)
        assert env.step(action)[2]
    monkeypatch.setattr(env.world, "joint_states", lambda: (positions, velocities))
    assert not env.step(action)[2]
    env.close()


@pytest.mark.parametrize(
    ("height", "options", "ends"),
    [
        (0.2, {}, False),  # counts as 0.95
        (0.2, {"repair_progress": True}, False),
        (0.2, {"repair_alive": True}, True),
        (0.3, {"repair_alive": True}, False),
        (-0.55, {}, True),
    ],
)
def test_ant_repair_alive(height: float, options: dict[str, bool], ends: bool) -> None:
    env = made(ANT, **options).unwrapped
    env.reset(seed=0)
    float_freely(env)
    world = env.world
    world.bullet.resetBasePositionAndOrientation(1, (0, 0, height), (0, 0, 0, 1), physicsClientId=world.client)
    obs, reward, terminated, *_, info = env.step(np.zeros(8))
    assert terminated == ends
    assert abs(obs[0] - height) < 0.02
    assert reward == pytest.approx((-1 if ends else 1) + info["progress"] - 0.1 * info["joints_at_limit"])
    env.close()


def test_ant_starts_with_four_joints_at_their_limits() -> None:
    env = made(ANT)
    env.reset(seed=0)
    assert env.step(np.zeros(8, np.float32))[4]["joints_at_limit"] == 4
    env.close()


def test_ant_repair_progress() -> None:
    envs = [made(ANT, repair_progress=repaired).unwrapped for repaired in (False, True)]
    for env in envs:
        env.reset(seed=3)
    steps = [[env.step(action)[4]["progress"] for env in envs] for action in actions(ANT, 30)]
    quirk, repaired = np.array(steps).T
    np.testing.assert_allclose(quirk, repaired * 21 / 22, atol=1e-3)  # the robot does not move exactly along x
    assert np.abs(quirk - repaired).max() > 0.005
    for env in envs:
        env.close()


def surface(env: Any, body: int, link: int) -> list[float]:
    """Return lateral friction, restitution, rolling and spinning friction."""
    info = env.world.bullet.getDynamicsInfo(body, link, physicsClientId=env.world.client)
    return [round(info[index], 6) for index in (1, 5, 6, 7)]


@pytest.mark.parametrize("name", IDS)
def test_default_friction(name: str) -> None:
    env = made(name).unwrapped
    for seed in range(2):
        env.reset(seed=seed)
        more = 0.1 if name == CHEETAH else 0.0
        assert surface(env, 0, -1) == [0.8, 0.5, more, more]
        assert surface(env, 1, 5)[1:] == [0, 0, 0]
    env.close()


def test_cheetah_repair_friction() -> None:
    env = made(CHEETAH, repair_friction=True).unwrapped
    env.reset(seed=0)
    assert surface(env, 0, -1) == [0.8, 0.5, 0, 0]
    assert all(surface(env, 1, link) == [0.8, 0.5, 0.1, 0.1] for link in range(-1, 16))
    env.close()


@pytest.mark.parametrize("name", IDS)
def test_episodes_do_not_depend_on_earlier_ones(name: str) -> None:
    fresh = [fingerprint(name, seed) for seed in range(3)]
    env = made(name, render_mode="rgb_array")
    for seed in (2, 0, 1, 1, 0):
        text = repr(list(episodes(env, name, range(seed, seed + 1))))
        assert hashlib.sha256(text.encode()).hexdigest() == fresh[seed]
        env.render()  # must not change anything
    env.close()


@pytest.mark.parametrize("name", IDS)
def test_episodes_do_not_depend_on_earlier_nan(name: str) -> None:
    env = made(name)
    env.reset(seed=0)
    for _ in range(3):
        env.unwrapped.world.step([np.nan] * len(FACTS[name].torques))
    text = repr(list(episodes(env, name, range(1))))
    assert hashlib.sha256(text.encode()).hexdigest() == fingerprint(name, 0)
    env.close()


def test_episodes_repeat_in_another_silent_process(tmp_path: Path) -> None:
    expected = [fingerprint(name, 5) for name in IDS]
    found = tmp_path / "fingerprints"
    code = f"""
import sys
sys.path.insert(0, {str(Path(__file__).parent)!r})
import test_bullet
junk = [bytearray(77 * size) for size in range(999)]
found = [test_bullet.fingerprint(name, 5) for name in test_bullet.IDS]
for name in test_bullet.IDS:
    env = test_bullet.made(name, render_mode="rgb_array")
    env.reset(seed=0)
    env.render()
    if name != test_bullet.HOPPER:
        env.close()
open({str(found)!r}, "w").write(" ".join(found))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert found.read_text().split() == expected


@pytest.mark.parametrize("names", [(HOPPER, HOPPER), (WALKER, ANT), (CHEETAH, ANT)])
def test_environments_are_independent(names: tuple[str, str]) -> None:
    alone = [list(episodes(made(name), name, range(2))) for name in names]
    both = [episodes(made(name), name, range(2)) for name in names]
    assert [list(pair) for pair in zip(*both, strict=True)] == [list(pair) for pair in zip(*alone, strict=True)]


@pytest.mark.parametrize("name", IDS)
def test_render(name: str) -> None:
    env = made(name, render_mode="rgb_array")
    env.reset(seed=0)
    first = env.render()
    assert (first.dtype, first.shape) == (np.uint8, (360, 480, 3))
    assert len(np.unique(first.reshape(-1, 3), axis=0)) > 20
    orange = (first[..., 0] > first[..., 2] + 40).sum()  # the robot; ground and sky are blue and white
    assert orange > 500
    for action in actions(name, 30):
        env.unwrapped.step(action)
    assert (env.render() != first).any()
    env.close()
    assert env.metadata["render_fps"] == 60


def test_time_limit() -> None:
    env = made(CHEETAH)
    env.reset(seed=0)
    for step in range(1, 1001):
        *_, terminated, truncated, _ = env.step(np.zeros(6, np.float32))
        assert (terminated, truncated) == (False, step == 1000)
    env.close()


def test_world_exists_between_reset_and_close() -> None:
    env = made(HOPPER, render_mode="rgb_array")
    for either in (env, env.unwrapped):
        with pytest.raises(ResetNeeded):
            either.step(np.zeros(3, np.float32))
        with pytest.raises(ResetNeeded):
            either.render()
    env.reset(seed=0)
    world = env.unwrapped.world
    assert world.bullet.isConnected(world.client)
    env.close()
    env.close()
    assert not world.bullet.isConnected(world.client)
    with pytest.raises(ResetNeeded):
        env.step(np.zeros(3, np.float32))
    env.reset(seed=0)  # connects again
    env.step(np.zeros(3, np.float32))
    client = env.unwrapped.world.client
    assert world.bullet.isConnected(client)
    del env, either  # not closed
    assert not world.bullet.isConnected(client)


@pytest.mark.parametrize(
    ("action", "message"),
    [
        (np.zeros(4), r"shape \(3,\), not \(4,\)"),
        (0.0, r"not \(\)"),
        ([0, np.nan, 0], "finite"),
        ([0, 0, np.inf], "finite"),
    ],
)
def test_invalid_actions(action: Any, message: str) -> None:
    env = made(HOPPER).unwrapped
    env.reset(seed=0)
    with pytest.raises(SmrlError, match=message):
        env.step(action)
    env.close()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"robot": "hoper"}, "no planar robot 'hoper'; did you mean hopper"),
        ({"robot": "hopper", "repair_friction": True}, "hopper has no friction to be repaired"),
        ({"robot": "hopper", "render_mode": "human"}, "rgb_array, not as 'human'"),
    ],
)
def test_invalid_options(options: dict[str, Any], message: str) -> None:
    with pytest.raises(SmrlError, match=message):
        PlanarEnv(**options)
    with pytest.raises(SmrlError, match="without render_mode"):
        PlanarEnv("hopper").render()


def test_register_twice() -> None:
    specs = [gymnasium.spec(name) for name in IDS]
    bullet.register()  # would fail if it warned, because warnings are errors
    assert all(gymnasium.spec(name) is spec for name, spec in zip(IDS, specs, strict=True))


def test_ids_need_no_gymnasium() -> None:
    code = "import sys\nfrom smrl.envs.catalogue import FAMILIES\nprint(*FAMILIES['PyBullet'].tasks, *sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split()[: len(IDS)] == list(IDS)
    assert "gymnasium" not in done.stdout.split()


def test_error_without_free_client(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(simulator(), "connect", lambda mode: -1)
    with pytest.raises(Error, match="no client left for another environment: close"):
        made(HOPPER).reset()


def test_error_without_pybullet(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pybullet", None)
    with pytest.raises(DependencyNotInstalled, match=r'pip install "smrl\[pybullet\]"'):
        simulator.__wrapped__()
