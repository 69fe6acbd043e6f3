"""Export a policy: write it to a temporary folder, compare it with the policy of the run, and put it into its place."""

import json
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from smrl.deploy import c_header, numpy_policy, onnx_model, safetensors_file
from smrl.deploy.description import Description, describe_policy
from smrl.deploy.observations import EnvironmentFacts, draw, environment_facts
from smrl.deploy.policy import Network
from smrl.errors import SmrlError, nearest, require, short_repr
from smrl.layers import Argmax, BestActor
from smrl.plugins import UserCode, in_words
from smrl.reading import parse_json, read_bytes
from smrl.runs.atomic import discard, new_folder, sync, writing
from smrl.runs.paths import CHECKPOINT, CONFIG, EVALUATIONS, TRAINING
from smrl.types import Continuous, Discrete

if TYPE_CHECKING:
    from smrl.training.run import Policy, Run

FORMAT = 1
KIND = "a policy exported by smrl"  # in contract.json; an earlier export is recognised by it
CONTRACT = "contract.json"
OBSERVATIONS = 1_000  # observations that an export is compared on
CHUNK = 100  # of them at a time, because convolutions take much memory
EXAMPLES = 10
TOLERANCE = 1e-5  # largest difference of actions in [-1, 1], and largest relative difference of two values in a tie
ROUNDINGS = 4  # times the effect of rounding to float32 that two policies may differ by, where that exceeds the former
LARGEST_DIFFERENCE = 0.01  # that rounding excuses
Act = Callable[[np.ndarray], Any]  # (batch, *obs) → (batch, *action)


@dataclass(frozen=True)
class Target:
    """A form of export."""

    files: tuple[str, ...]
    write: Callable[[Path, Description], None]
    load: Callable[[Path, Description], tuple[Act, str]]  # returns the policy, and a text of what computes it
    facts: Mapping[str, Any] = field(default_factory=dict)  # for the contract


TARGETS = {
    "numpy": Target(("policy.npz", "policy.py"), numpy_policy.write, numpy_policy.load),
    "onnx": Target((onnx_model.FILE,), onnx_model.write, onnx_model.load, {"opset": onnx_model.OPSET}),
    "c": Target((c_header.FILE,), c_header.write, c_header.load, {"function": c_header.SIGNATURE}),
    "safetensors": Target((safetensors_file.FILE,), safetensors_file.write, safetensors_file.load),
}
FOLDER = "folder"  # a form that `smrl.report.share` writes
CARD, CURVE = "README.md", "curve.png"
SHARED = (CARD, CURVE, CONFIG, EVALUATIONS, TRAINING, CHECKPOINT)  # beside a policy in a folder of `smrl.report.share`
FILES = {CONTRACT, "__pycache__", *(name for target in TARGETS.values() for name in target.files), *SHARED}


@dataclass(frozen=True)
class Exported:
    """An export that was compared with the policy of its run."""

    path: Path
    target: str
    step: int
    observations: int
    from_replay: int  # observations of these that are from the replay memory
    difference: float  # largest difference of an action in [-1, 1]; 0 for discrete actions
    rounding: float | None  # of these, what rounding to float32 explains; None where the difference is small
    ties: int  # observations at which another choice was accepted, because its value is the same up to rounding
    checked_by: str

    def __str__(self) -> str:
        ties = f", {self.ties} ties apart" if self.ties else ""
        rounding = f", where float32 itself is off by {self.rounding:.1e}" if self.rounding is not None else ""
        return (
            f"{self.path}: {self.target}, policy of step {self.step:,}; largest difference {self.difference:.1e} on "
            f"{self.observations:,} observations ({self.from_replay:,} from the replay memory){rounding}{ties}, "
            f"checked by {self.checked_by}"
        )


def export(
    run: "Run", path: Path, to: str, best: bool, add: Callable[[Path, Exported], None] | None = None
) -> Exported:
    """Write a run's policy to a folder; see `smrl.training.run.Run.export`. ``add`` may write more of SHARED to it."""
    known = (*TARGETS, FOLDER)
    require(to in TARGETS, f"there is no target {short_repr(to)} among {', '.join(known)}{nearest(to, known)}")
    _refuse_other_files(path)
    target, policy = TARGETS[to], run.best_policy if best else run.policy
    description = _describe(run, policy)
    facts = environment_facts(run)
    observations, from_replay = draw(run, description, facts, OBSERVATIONS)
    wanted = _actions(lambda obs: policy(description.as_observed(obs)), observations)
    require(
        bool(np.isfinite(wanted).all()),
        f"the policy of {run.path} returns actions that are not finite numbers: the training has diverged; export an "
        "earlier policy, such as that of --best.",
    )
    place = Path(os.path.abspath(path))
    with writing(path, "or export to another folder"), new_folder(place) as new:
        with UserCode(partial(_failure, to)):
            target.write(new, description)
            act, checked_by = target.load(new, description)
            actions = _actions(act, observations)
        difference, ties = compare(description, observations, wanted, actions)
        rounding = _rounding(description, observations) if difference > TOLERANCE else None
        done = Exported(path, to, policy.step, OBSERVATIONS, from_replay, difference, rounding, ties, checked_by)
        if rounding is not None and difference > min(ROUNDINGS * rounding, LARGEST_DIFFERENCE):
            raise _difference(done, description, observations, wanted)
        contract = _contract(run, description, facts, done, best) | _examples(observations, wanted)
        _write_contract(new / CONTRACT, contract)
        if add is not None:
            add(new, done)
        _put_into_place(new, place)
    return done


def compare(
    description: Description, observations: np.ndarray, wanted: np.ndarray, actions: np.ndarray
) -> tuple[float, int]:
    """Return the largest difference of two policies' actions, and the number of ties that were left out of it.

    Continuous actions are compared as in [-1, 1], whatever their bounds. A tie is a choice between values that are
    equal up to rounding: of discrete actions, or of actors by their critics.
    """
    require(
        actions.shape == wanted.shape and actions.dtype == wanted.dtype,
        f"the export returns actions of shape {actions.shape[1:]} and {actions.dtype}, its policy of {wanted.shape[1:]}"
        f" and {wanted.dtype}; report this with the run's config.json.",
    )
    if isinstance(description.spec.action, Continuous):
        low, high = (bound.astype(np.float64) for bound in description.spec.action.bounds)
        reach = ((high - low) / 2).reshape(description.action_shape)
        differences = np.abs(actions.astype(np.float64) - wanted) / reach
        differences = np.where(np.isnan(differences), np.inf, differences)
        if np.finfo(wanted.dtype).eps > TOLERANCE:  # float16: rounding to the nearest one may go either way
            differences[np.abs(actions - wanted) <= np.spacing(np.abs(wanted))] = 0
        differences = differences.reshape(len(wanted), -1).max(axis=1)
    else:
        differences = (actions != wanted).astype(np.float64)
    (rows,) = np.nonzero(differences > TOLERANCE)
    tied = rows[_are_ties(description, observations[rows])] if rows.size else rows
    differences[tied] = 0
    return float(differences.max()), len(tied)


def _are_ties(description: Description, observations: np.ndarray) -> np.ndarray:
    """Return for each observation whether the policy chooses between two values that are equal up to rounding."""
    layers, arrays = description.described
    chooses = [index for index, layer in enumerate(description.layers) if isinstance(layer, Argmax | BestActor)]
    if not chooses:
        return np.zeros(len(observations), bool)
    before, choice = layers[: chooses[0]], layers[chooses[0]]
    if choice["layer"] == "best_actor":
        before = [*before, choice | {"layer": "actor_values"}]
    values = _actions(Network(before, arrays), observations)
    rounding = np.abs(values - _actions(Network(before, _doubles(arrays)), observations)).max()
    second, best = np.sort(values, axis=-1)[:, -2:].T
    return best - second <= np.maximum(TOLERANCE * np.maximum(1, np.abs(best)), ROUNDINGS * rounding)


def _rounding(description: Description, observations: np.ndarray) -> float:
    """Return how far rounding to float32 moves an action of this policy.

    It does not depend on how the run or the export computes the policy, so a wrong description is not excused by it.
    """
    layers, arrays = description.described
    rounded, exact = (_reshaped(description, Network(layers, part)) for part in (arrays, _doubles(arrays)))
    return compare(description, observations, _actions(exact, observations), _actions(rounded, observations))[0]


def _doubles(arrays: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    return {name: array.astype(np.float64) for name, array in arrays.items()}


def _reshaped(description: Description, network: Network) -> Act:
    """Return a policy with actions of the environment's dtype and shape."""
    return lambda obs: network(obs).astype(description.action_dtype).reshape(-1, *description.action_shape)


def _describe(run: "Run", policy: "Policy") -> Description:
    """Return the description of a policy; raise SmrlError if the algorithm's layers are no network."""
    name = run.settings.algorithm
    with UserCode(lambda error: _faulty_network(name, error)), np.errstate(all="ignore"):
        description = describe_policy(policy.layers(), policy.spec, name, run.settings.to_json())
        Network(*description.described)(np.zeros((1, *description.obs_shape), policy.spec.obs.dtype))
    return description


def _faulty_network(algorithm: str, error: BaseException) -> BaseException:
    if isinstance(error, SmrlError):
        return error
    return SmrlError(
        f"network of the algorithm {algorithm} does not describe a policy ({in_words(error)}); see docs/extend.md."
    )


def _difference(done: Exported, description: Description, observations: np.ndarray, wanted: np.ndarray) -> SmrlError:
    """Return the error about an export that differs from its policy: the fault of the target or of the algorithm."""
    described = _actions(_reshaped(description, Network(*description.described)), observations)
    is_described = compare(description, observations, wanted, described)[0] <= TOLERANCE
    who = f"network of the algorithm {description.settings['algorithm']} describes"
    advice = "export to another target, and report this" if is_described else f"{who} another policy: correct it"
    return SmrlError(
        f"the export differs from the policy by {done.difference:.1e}, more than {TOLERANCE:g}, so it was not kept "
        f"(checked by {done.checked_by}); {advice}."
    )


def _failure(to: str, error: BaseException) -> BaseException:
    if isinstance(error, SmrlError | OSError):
        return error
    return SmrlError(f"the policy could not be written for {to} ({in_words(error)}): export to another target.")


def _actions(act: Act, observations: np.ndarray) -> np.ndarray:
    return np.concatenate([act(part) for part in _chunks(observations)])


def _chunks(observations: np.ndarray) -> list[np.ndarray]:
    return [observations[start : start + CHUNK] for start in range(0, len(observations), CHUNK)]


# The contract


def _contract(
    run: "Run", description: Description, facts: EnvironmentFacts, done: Exported, best: bool
) -> dict[str, Any]:
    settings, action = run.settings, description.spec.action
    if isinstance(action, Discrete):
        bounds: dict[str, Any] = {"first": action.start, "last": action.start + action.count - 1}
    else:
        low, high = action.bounds
        bounds = {"low": _numbers(low), "high": _numbers(high)}
    period = facts.period and {"seconds": facts.period, "source": facts.period_source}
    return {
        "kind": KIND,
        "format": FORMAT,
        "smrl": version("smrl"),
        "target": done.target,
        "files": TARGETS[done.target].files,
        **TARGETS[done.target].facts,
        "run": "/".join(run.path.parts[-3:]),
        "environment": settings.env,
        "algorithm": settings.algorithm,
        "step": done.step,
        "best": best,
        "digest": description.digest,
        "observation": _observation(description, facts),
        "action": {"name": "action", **description.facts["action"], **bounds},
        "action_repeat": settings.action_repeat,
        "control_period": period,
        "checked": {
            "by": done.checked_by,
            "observations": done.observations,
            "from_replay": done.from_replay,
            "largest_difference": done.difference,
            "rounding": done.rounding,
            "ties": done.ties,
        },
        "layers": description.facts["layers"],
    }


def _observation(description: Description, facts: EnvironmentFacts) -> dict[str, Any]:
    parts: dict[str, Any] = {"name": "observation", **description.facts["observation"]}
    if description.is_image:
        layout = {"layout": "height, width, channels", "stack": description.spec.obs.stack}
        return parts | layout | {"stack_order": "oldest frame first", "low": 0, "high": 255}
    names = [{"name": ".".join(entry.path), "shape": entry.shape} for entry in description.entries]
    bounds = {"low": _numbers(facts.low), "high": _numbers(facts.high)}
    return parts | ({} if description.is_plain else {"entries": names}) | bounds


def _examples(observations: np.ndarray, actions: np.ndarray) -> dict[str, Any]:
    given, returned = observations[:EXAMPLES].tolist(), actions[:EXAMPLES].tolist()
    return {"examples": [{"observation": obs, "action": action} for obs, action in zip(given, returned, strict=True)]}


def _numbers(values: np.ndarray | None) -> list[float | None] | None:
    """Return numbers for JSON, which has none that are infinite."""
    return None if values is None else [value if np.isfinite(value) else None for value in values.ravel().tolist()]


def _write_contract(path: Path, contract: dict[str, Any]) -> None:
    lines = (f"{json.dumps(name)}: {json.dumps(value)}" for name, value in contract.items())
    path.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="ascii")


# The folder


def _refuse_other_files(path: Path) -> None:
    """Refuse a place that holds anything but an earlier export."""
    if os.path.lexists(path):
        require(
            _is_export(path),
            f"{path} exists and is not an earlier export: choose another folder, or move it elsewhere.",
        )


def _is_export(path: Path) -> bool:
    try:
        contract = parse_json(read_bytes(path / CONTRACT))
        names = {entry.name for entry in path.iterdir()}
    except (OSError, ValueError):
        return False
    return not path.is_symlink() and isinstance(contract, dict) and contract.get("kind") == KIND and names <= FILES


def _put_into_place(new: Path, path: Path) -> None:
    """Rename a folder, after moving an earlier export out of its way."""
    for file in new.iterdir():
        sync(file)
    old = path.with_name(f".{path.name}.old")
    if os.path.lexists(old):
        discard(old)
    if path.exists():
        os.rename(path, old)
    os.rename(new, path)
    sync(path.parent)
    if old.exists():
        discard(old)
