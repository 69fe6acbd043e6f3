"""Presets: named settings by algorithm and task, which override the algorithm's defaults from the paper's table."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import MISSING, dataclass, fields
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any, Literal

from smrl import plugins
from smrl.envs.catalogue import canonical
from smrl.errors import SmrlError, nearest, require, short_repr
from smrl.keywords import HYPERPARAMETERS

if TYPE_CHECKING:
    from smrl.settings import Settings

GROUP = "smrl.presets"  # entry points of packages that provide presets


def _is_text(value: Any) -> bool:
    return isinstance(value, str) and value.isprintable() and len(value) <= 500


@dataclass(frozen=True)
class Row:
    """Settings of an algorithm, or of all (*), on tasks whose ids match a pattern; later rows override earlier ones.

    The ids are those that `smrl list --environments` prints.
    """

    algorithm: str
    settings: dict[str, Any]
    tasks: str = "*"
    source: Literal["", "from code", "ours"] = ""
    """Source of settings of the preset ``paper`` that the paper does not print."""

    def __post_init__(self) -> None:
        for name in (self.algorithm, self.tasks):
            require(_is_text(name), f"algorithm and tasks of a preset's row are texts, not {short_repr(name)}.")
        are_named = isinstance(self.settings, dict) and all(isinstance(name, str) for name in self.settings)
        require(are_named, f"the settings of a preset's row are a dict by name, not {short_repr(self.settings)}.")


@dataclass(frozen=True)
class Preset:
    """Rows of settings, which override those of the preset ``paper``."""

    title: str
    rows: tuple[Row, ...]
    seeds: int = 3
    """Default number of seeds of ``smrl compare``; the paper's figures have six."""

    def __post_init__(self) -> None:
        require(_is_text(self.title), f"the title of a preset is a text, not {short_repr(self.title)}.")
        is_count = type(self.seeds) is int and 1 <= self.seeds <= 1000
        require(is_count, f"the seeds of a preset are a number from 1 to 1,000, not {short_repr(self.seeds)}.")
        are_rows = isinstance(self.rows, tuple) and all(isinstance(row, Row) for row in self.rows)
        require(are_rows, f"the rows of a preset are a tuple of smrl.Row, not {short_repr(self.rows)}.")


MANY = 4  # settings of a preset that names of runs replace by its name
UNNAMED = ("reuse", "steps", "eval_every", "eval_episodes")  # settings that are named beside the preset, or never
GYM, BULLET = "{}-v*", "{}*Env-v0"  # patterns of the ids of robots in Gym MuJoCo and PyBullet


def _by_robot(algorithm: str, setting: str, is_printed: bool = True, **values: float) -> Iterator[Row]:
    """Yield a row per robot for Gym MuJoCo and one for PyBullet, whose values the paper never prints."""
    for robot, value in values.items():
        yield Row(algorithm, {setting: value}, GYM.format(robot), "" if is_printed else "from code")
        yield Row(algorithm, {setting: value}, BULLET.format(robot.replace("2d", "2D")), "from code")


ATARI = ("*NoFrameskip-v4", "ALE/*-v5")
SMALL_DQN = {  # for tasks that are learned within minutes
    **{"steps": 8_000, "warmup": 500, "eval_every": 500, "batch_size": 64},
    **{"learning_rate": 5e-4, "hidden": (128, 128), "learn_every": 1, "target_every": 100},
    **{"epsilon": 0.05, "epsilon_steps": 2_000},
}
CARTPOLE_DQN = {  # each copy of the target network looks n_step rewards further ahead, so that few would be myopic
    **{"steps": 10_000, "batch_size": 128, "n_step": 10, "learn_every": 4, "target_every": 20},
    **{"activation": "tanh", "epsilon": 0.1},
}
SMALL_IMAGES = {
    **{"steps": 6_000, "warmup": 500, "eval_every": 500, "eval_episodes": 20, "batch_size": 64, "learning_rate": 5e-4},
    **{"filters": (16, 16), "kernels": (3, 3), "strides": (1, 1), "features": 32, "shift": 1},
    **{"actor_hidden": (64, 64), "critic_hidden": (64, 64)},
}
SMALL_DRQ = {  # without augmentation, because a shift would move the paddle out of the image
    **{"learn_every": 1, "n_step": 1, "augmentation": "none", "learning_rate": 2e-4},
    **{"first_noise": 0.7, "last_noise": 0.3, "noise_steps": 3_000},
}
WALKER = ("stand", "walk", "run")
SLOWER_NOISE = (  # tasks that the authors of DrQ-v2 call medium
    *("acrobot-swingup", "cartpole-swingup_sparse", "cheetah-run", "finger-turn_*", "hopper-hop"),
    *("quadruped-*", "reacher-*", "walker-run"),
)
SMR_PLUS = {
    **{"reuse": 4, "n_step": 2, "layer_norm": True, "normalise_observations": True, "normalise_rewards": True},
    **{"initial_temperature": 0.01, "target_entropy_factor": -0.5, "log_std_min": -10.0},
}
ORIGINAL_REDQ = {
    "initialisation": "xavier",
    "log_prob_floor": 1e-6,
    "temperature_loss": "log-alpha",
    "first_temperature": 0.2,
    "order": "together",
}

PRESETS: dict[str, Preset] = {
    "paper": Preset(
        "the paper's pseudo-code and tables, else published code; other presets override it",
        (
            Row("*", {"reuse": 10}),
            Row("*", {"steps": 500_000}, "dm[c_]*/*"),
            Row("*", {"action_repeat": 4}, "dm[c_]*/*", "from code"),
            *(
                Row("*", {"action_repeat": 2}, f"dm[c_]*/{domain}*", "from code")
                for domain in ("walker", "humanoid", "dog", "finger")
            ),
            Row("*", {"action_repeat": 2}, "dmc-pixels/*"),
            Row("*", {"steps": 500_000}, "*MuJoCoEnv-v0"),
            *_by_robot("darc", "nu", Hopper=0.15, HalfCheetah=0.1, Walker2d=0.1, Ant=0.25),
            Row("darc", {"nu": 0.15}, "Walker2D*Env-v0", "from code"),
            Row("darc", {"nu": 0.2}, "Ant*Env-v0", "from code"),
            Row("tqc", {"warmup": 256, "warmup_actions": "policy"}),
            *_by_robot("tqc", "dropped", Hopper=5, HalfCheetah=0, Walker2d=2, Ant=2),
            Row("redq", {"reuse": 5, "fresh_batches": 20}),
            *_by_robot("redq", "target_entropy", False, Hopper=-1, HalfCheetah=-3, Walker2d=-3, Ant=-4, Humanoid=-2),
            Row("xqc", {"reuse": 4, "normalise_rewards": True}, source="ours"),
            Row("sac_pixels", {"reuse": 5, "steps": 100_000}),
            Row("drqv2", {"reuse": 5, "steps": 500_000}),
            Row("drqv2", {"warmup": 4_000, "n_step": 3, "windows": "full"}, source="from code"),
            *(Row("drqv2", {"n_step": 1, "batch_size": 512}, f"*/walker-{verb}", "from code") for verb in WALKER),
            *(Row("drqv2", {"noise_steps": 500_000}, f"*/{task}", "from code") for task in SLOWER_NOISE),
            Row("drqv2", {"noise_steps": 2_000_000, "learning_rate": 8e-5}, "*/humanoid-*", "from code"),
            Row("drqv2", {"features": 100}, "*/humanoid-*", "from code"),
            Row("drqv2", {"capacity": 100_000}, "*/quadruped-run", "from code"),
            Row("dqn", {"eval_every": 5_000}),
            Row("dqn", {"batch_size": 32, "warmup": 10_000, "warmup_actions": "policy"}, source="from code"),
            *(Row("dqn", {"steps": 4_000_000, "reuse": 2}, tasks) for tasks in ATARI),
            *(Row("dqn", {"capacity": 10_000}, tasks, "from code") for tasks in ATARI),
            *(Row("dqn", {"steps": 500_000, "reuse": 10}, tasks) for tasks in ("PongNoFrameskip-v4", "ALE/Pong-v5")),
            *(Row("dqn", SMALL_DQN, tasks, "ours") for tasks in ("CartPole-v*", "Acrobot-v*", "MountainCar-v*")),
            Row("dqn", CARTPOLE_DQN, "CartPole-v*", "ours"),
            Row("dqn", SMALL_DQN | {"steps": 50_000, "epsilon_steps": 10_000}, "LunarLander-v*", "ours"),
            Row("dqn", SMALL_DQN | {"hidden": (64,), "batch_size": 32, "eval_episodes": 20}, "*Catch-v0", "ours"),
            Row("dqn", {"filters": (16, 16), "kernels": (3, 3), "strides": (1, 1)}, "*Catch-v0", "ours"),
            *(Row(name, SMALL_IMAGES, "*CatchContinuous-v0", "ours") for name in ("sac_pixels", "drqv2")),
            Row("drqv2", SMALL_DRQ, "*CatchContinuous-v0", "ours"),
        ),
    ),
    "authors": Preset(
        "the code that the paper's authors published, where there is any",
        (
            *(Row(name, {}) for name in ("ddpg", "td3", "tqc")),
            Row("sac", {"exploration": "mean-plus-noise"}),
            Row("darc", {"actor_hidden": (256, 256), "critic_hidden": (256, 256), "learning_rate": 3e-4}),
            Row("darc", {"acting": "own-critic", "nu": 0.1}),
            Row("darc", {"nu": 0.25}, "*Ant*"),
            Row("darc", {"nu": 0.15}, "*Hopper*"),
            Row("redq", {"exploration": "mean-plus-noise", "initialisation": "small-last", "critic_loss": "mean"}),
        ),
    ),
    "original": Preset(
        "the base algorithm as its authors published it, without reuse",
        (
            *(Row(name, {"reuse": 1, "warmup": 25_000, "eval_every": 5_000}) for name in ("ddpg", "td3")),
            Row("sac", {"reuse": 1, "initialisation": "xavier", "adam_epsilon": 1e-7}),
            Row("sac", {"warmup": 10_000, "eval_episodes": 1}),
            Row("darc", {"reuse": 1, "acting": "own-critic", "batch_size": 100}),
            Row("darc", {"warmup": 10_000, "eval_every": 5_000}),
            Row("tqc", {"reuse": 1}),
            Row("redq", {"reuse": 1, **ORIGINAL_REDQ, "eval_episodes": 1}),
            Row("drqv2", {"reuse": 1, "eval_every": 10_000}),
            Row("dqn", {"reuse": 1}),
        ),
    ),
    "lr": Preset(
        "SAC-LR of the paper: learning rates ten times as large instead of reuse",
        (Row("sac", {"learning_rate_factor": 10.0, "reuse": 1}),),
        seeds=6,
    ),
    "utd": Preset(
        "SAC-UTD of the paper: ten fresh batches per step instead of reuse",
        (Row("sac", {"fresh_batches": 10, "reuse": 1}), Row("sac", {"steps": 1_000_000}, "dm[c_]*/*")),
        seeds=6,
    ),
    "ant-v2": Preset(
        "the paper's Ant, whose observations end in 84 zeros, which Ant-v4 leaves out",
        (Row("*", {"pad_observations": 84}, "Ant-v4"),),
    ),
    "smr+": Preset(
        "reuse 4 with LayerNorm, 2-step returns, normalised observations and rewards, and a low temperature",
        (Row("sac", SMR_PLUS),),
    ),
    "warm-up": Preset(
        "reuse for the first 300,000 steps only",
        tuple(Row(name, {"reuse": "10:300000,1"}) for name in ("ddpg", "td3", "sac", "darc", "tqc")),
    ),
    "droq": Preset(
        "DroQ: REDQ with two critics that have LayerNorm and dropout, without reuse",
        (
            Row("redq", {"reuse": 1, **ORIGINAL_REDQ, "critics": 2, "layer_norm": True, "dropout": 0.01}),
            Row("redq", {"dropout": 1e-4}, "Hopper-v*"),
            Row("redq", {"dropout": 5e-3}, "Walker2d-v*"),
        ),
    ),
}


def preset_names() -> list[str]:
    """Return the names of all presets, those of smrl first."""
    return [*PRESETS, *(name for name in plugins.entry_points(GROUP) if name not in PRESETS)]


def find_preset(name: str) -> Preset:
    """Return the preset of a name, of a TOML file or of ``module:name``; suggest a similar name for an unknown one."""
    if name.endswith(".toml"):
        from smrl.preset_file import read_preset  # not above, so that presets can be listed without it

        return read_preset(name)
    if name not in PRESETS:
        known, entry_point = preset_names(), plugins.entry_points(GROUP).get(name)
        if entry_point is None and ":" not in name:
            raise SmrlError(f"there is no preset '{name}' among {', '.join(known)}{nearest(name, known)}")
        found = plugins.load(entry_point.value if entry_point else name, "a preset")
        if not isinstance(found, Preset):
            raise SmrlError(f"{name} is not a preset; make it with smrl.Preset(title, rows).")
        PRESETS[name] = found
    return PRESETS[name]


def resolve(algorithm: str, env: str, preset: str = "paper", **values: Any) -> "Settings[Any]":
    """Return the settings of a run: the algorithm's defaults, the paper's for the task, the preset's, these values.

    >>> resolve("redq", "Hopper-v4", tau=0.01).fresh_batches
    20
    """
    # Not above, so that presets can be listed without importing these.
    from smrl.algorithms import registry
    from smrl.settings import make_settings, names

    env, chosen = canonical(env), find_preset(preset)
    algorithms = dict.fromkeys(row.algorithm for row in chosen.rows)
    for other in algorithms.keys() - {"*"}:
        if other not in registry.names() and ":" not in other:
            advice = nearest(other, registry.names())
            raise SmrlError(f"the preset '{preset}' has a row for {other!r}, which is no algorithm{advice}")
    if preset != "paper" and not algorithms.keys() & {algorithm, "*"}:
        raise SmrlError(f"the preset '{preset}' is not for {algorithm}, but for {', '.join(algorithms)}.")
    known = names(algorithm).keys() - {"algorithm", "env"}
    rows = PRESETS["paper"].rows + chosen.rows
    for row in (row for row in rows if row.algorithm in ("*", algorithm)):
        # Rows for other tasks are checked too: they would hide a misspelling.
        for name in sorted(row.settings.keys() - known):
            raise SmrlError(
                f"the preset '{preset}' sets {name!r}, which {algorithm} does not have{nearest(name, known)}"
            )
    return make_settings(algorithm, env, **_row_values(rows, algorithm, env, values.get("real_time")) | values)


def usual_values(settings: Mapping[str, Any], defaults: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values that names of runs leave out: the defaults of an algorithm, and the paper's for the task.

    A run with all of the many settings of another preset is named by it: its values then count as usual, and its name
    is the value ``preset``. Nothing that the settings name is imported.
    """
    algorithm, env = settings["algorithm"], canonical(settings["env"])
    mine = {**settings, **settings.get("hyper", {})}
    usual = {**defaults, **_row_values(PRESETS["paper"].rows, algorithm, env, settings.get("real_time"))}
    fitting: list[dict[str, Any]] = [{}]
    for name in (name for name in PRESETS if name != "paper"):
        values = _row_values(PRESETS[name].rows, algorithm, env, None)
        named = {key: value for key, value in values.items() if key not in UNNAMED}
        if len(named) >= MANY and all(_is_same(mine.get(key), value) for key, value in named.items()):
            fitting.append({**named, "preset": name})
    most = max(fitting, key=len)
    return {**usual, **most}


def known_values(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return the same without the algorithm: the hyperparameters of a custom one are unknown. Needs no JAX."""
    from smrl.settings import Settings

    defaults = {field.name: field.default for field in fields(Settings) if field.default is not MISSING}
    return usual_values(settings, {**defaults, **HYPERPARAMETERS.get(settings["algorithm"], {})})


def _is_same(stored: Any, value: Any) -> bool:
    return bool(stored == (list(value) if isinstance(value, tuple) and isinstance(stored, list) else value))


def _row_values(rows: Iterable[Row], algorithm: str, env: str, real_time: Any) -> dict[str, Any]:
    """Return the settings of the rows for an algorithm and a task."""
    found: dict[str, Any] = {}
    for row in rows:
        if row.algorithm in ("*", algorithm) and fnmatchcase(env.rpartition(":")[2], canonical(row.tasks)):
            found |= row.settings
    return found | ({"eval_episodes": 1} if real_time else {})  # a device plays them, one after the other
