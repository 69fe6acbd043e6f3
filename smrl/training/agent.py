"""The agent: an algorithm with its state, compiled functions that act and learn, and its arrays for checkpoints."""

import contextlib
import threading
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from smrl.algorithms import registry
from smrl.algorithms.registry import Make
from smrl.errors import SmrlError
from smrl.layers import Layer, Normalise
from smrl.memory.mixed import MixedReplay
from smrl.memory.replay import Replay
from smrl.nn.networks import MEMBERS
from smrl.randomness import Purpose, Stream, at, key
from smrl.settings import Settings
from smrl.smr.auto import Auto, Probe
from smrl.smr.loop import AgentState, initial_state, learner, prober
from smrl.smr.rules import ProbingRule, Rule, Schedule, rule_of
from smrl.training.clock import Moment
from smrl.training.diagnostics import ROWS, Diagnostics
from smrl.training.memory_budget import refuse_large_networks
from smrl.training.normaliser import CLIP, Normaliser, load_normaliser, observed, statistics_of
from smrl.types import Algorithm, Array, Key, Metrics, Spec, Transition

METRICS_BUFFER = 100  # metrics kept on the device before they are read back, so that a GPU is rarely waited for
PROBE_ROWS = 1_024  # of each kind that a measurement on held-out rows takes
DIAGNOSTIC_DRAWS = 2**31  # their random streams are numbered from here on, those of rules by environment steps
METRICS_EVERY = 10  # learning steps between two metrics: reading the losses back every time would be slow

KeyPath = tuple[Any, ...]


class ActingParams(NamedTuple):
    """What an action depends on besides the observation."""

    params: Any
    normaliser: Normaliser | None
    average: Any = None  # of the parameters, where it is taken

    @property
    def greedy(self) -> Any:
        """The parameters that act greedily."""
        return self.params if self.average is None else self.average


class ActingFunctions:
    """The functions of an algorithm that act and judge, compiled at their first call; pickled as what makes them."""

    def __init__(self, make: Make, settings: Settings[Any], spec: Spec) -> None:
        self.make, self.settings, self.spec = make, settings, spec
        self.algorithm = make(settings.hyper, spec)
        self.explore, self.exploit = jax.jit(self.algorithm.explore), jax.jit(self.algorithm.exploit)

    def __reduce__(self) -> tuple[Any, ...]:
        return ActingFunctions, (self.make, self.settings, self.spec)

    @cached_property
    def q_values(self) -> Any:
        """The values of all critics; raises SmrlError if the algorithm does not offer them."""
        if self.algorithm.q_values is None:
            raise SmrlError(
                f"the algorithm {self.settings.algorithm} offers no values of its critics: give its Algorithm a "
                "function q_values(state, obs, action); see docs/extend.md."
            )
        return jax.jit(self.algorithm.q_values)


def acting_functions(settings: Settings[Any], spec: Spec) -> ActingFunctions:
    """Return the functions of a run's algorithm."""
    return ActingFunctions(registry.find(settings.algorithm).make, settings, spec)


def reuse_rule(settings: Settings[Any]) -> Rule:
    """Return the rule that chooses M in a run."""
    rule = rule_of(settings.reuse, settings.real_time)
    return replace(rule, gamma=settings.gamma) if isinstance(rule, Auto) else rule


def refuse_probing(algorithm: Algorithm[Any], rule: ProbingRule, spec: Spec) -> None:
    """Raise SmrlError if a rule cannot measure this algorithm, because its updates report no loss."""
    initial = jax.eval_shape(lambda key: (algorithm.init(key), rule.init(), key), key(0, Purpose.HOLD_OUT))
    batch = spec.example()
    jax.eval_shape(
        lambda state, carry, key: prober(algorithm, rule)(state, carry, Probe(batch, batch), 1, 1, key), *initial
    )


class Agent:
    """Acts, and learns from a replay memory. Call `start` or `restore` before anything else."""

    state: AgentState[Any]

    def __init__(self, settings: Settings[Any], spec: Spec) -> None:
        self.settings = settings
        self.version = 0  # grows when the networks change
        self.functions = acting_functions(settings, spec)
        self.algorithm = algorithm = self.functions.algorithm
        self.rounds = algorithm.rounds * settings.fresh_batches
        self.statistics = statistics_of(settings, spec)  # of what is normalised; who collects updates them
        self._rule = rule = reuse_rule(settings)
        self._draws, self._probe_draws = (Stream(settings.seed, name) for name in (Purpose.REPLAY, Purpose.HOLD_OUT))
        self._metrics: list[Metrics] = []  # not yet read back from the device
        self._sums: dict[str, tuple[float, int]] = {}  # sum and count of each metric since `take_metrics`
        explore_key, learn_key = key(settings.seed, Purpose.EXPLORE), key(settings.seed, Purpose.LEARN)
        repeat = settings.action_repeat
        probe_key = key(settings.seed, Purpose.HOLD_OUT)
        learn_step = learner(algorithm, rule, settings.fresh_batches, repeat)

        def explore(policy: Any, obs: Array, step: Array) -> Array:
            return algorithm.explore(policy, obs, step // repeat, at(explore_key, step))

        def learn(state: Any, batches: Transition, step: Array, env_step: Array) -> tuple[AgentState[Any], Metrics]:
            new, metrics = learn_step(state, batches, step, env_step, at(learn_key, step))
            if settings.average_policy is not None:
                params = algorithm.policy_params(new.algorithm)
                new = new._replace(average=averaged(state.average, params, settings.average_policy))
            return new, metrics

        if isinstance(rule, ProbingRule):
            measure = prober(algorithm, rule, settings.fresh_batches, repeat)
            self._compare = jax.jit(
                lambda state, carry, probe, step, env_step: measure(
                    state, carry, probe, step, env_step, at(probe_key, step)
                )
            )

        def reset(state: AgentState[Any], key: Key) -> AgentState[Any]:
            new = algorithm.reset(state.algorithm, key) if algorithm.reset else algorithm.init(key)
            return self._begin_average(state._replace(algorithm=new))

        self._explore, self._exploit, self._reset = jax.jit(explore), self.functions.exploit, jax.jit(reset)
        self._learn = jax.jit(learn, donate_argnums=0)
        self._template = jax.eval_shape(self._initial_state, learn_key)
        self._compiling = threading.Thread(target=self._compile, args=(spec.example(),), name="compile")
        self._compiling.start()

    def _compile(self, example: Transition) -> None:
        """Compile the updates; this runs in a thread beside the start of the agent and the warm-up."""
        size = (self.rounds, self.settings.batch_size)
        batches = jax.tree.map(lambda field: jax.ShapeDtypeStruct((*size, *field.shape[1:]), field.dtype), example)
        with contextlib.suppress(Exception):  # the first update fails in the same way, and reports it
            self._learn.lower(self._template, batches, 1, 1).compile()

    def _initial_state(self, key: Key) -> AgentState[Any]:
        # The targets are the arrays of the critics, and an array can be donated only once.
        return jax.tree.map(jnp.copy, self._begin_average(initial_state(self.algorithm, self._rule, key)))

    def _begin_average(self, state: AgentState[Any]) -> AgentState[Any]:
        """Let the average be the present policy, if it is taken."""
        is_taken = self.settings.average_policy is not None
        return state._replace(average=self.algorithm.policy_params(state.algorithm) if is_taken else None)

    def start(self, networks: dict[str, np.ndarray] | None = None) -> None:
        """Begin with new networks, or with the networks, optimisers and statistics of another run."""
        # Not compiled as a whole, because its small programs are compiled once and used for every layer.
        self.state = self._initial_state(key(self.settings.seed, Purpose.INITIALISE))
        if networks is not None:
            found = from_arrays({"algorithm": self._template.algorithm}, networks)
            self.state = jax.tree.map(jnp.copy, self._begin_average(self.state._replace(algorithm=found["algorithm"])))
            if self.statistics:
                self.statistics.start_from(networks)

    def compile(self) -> None:
        """Wait until the updates are compiled."""
        self._compiling.join()

    def set_reuse(self, times: int) -> None:
        """Write the next M into the carry of `smrl.smr.rules.FittedReuse` or `Budget`."""
        self.state = self.state._replace(rule=jnp.asarray(times, jnp.int32))

    def restore(self, arrays: dict[str, np.ndarray]) -> None:
        """Continue from the arrays of a checkpoint."""
        self.state = AgentState(**from_arrays(self._template._asdict(), arrays))
        if self.statistics:
            self.statistics.restore(arrays)

    def arrays(self) -> dict[str, np.ndarray]:
        """Return the arrays to save."""
        return to_arrays(self.state._asdict()) | (self.statistics.arrays() if self.statistics else {})

    def policy_arrays(self, policy: ActingParams | None = None) -> dict[str, np.ndarray]:
        """Return what acts greedily, by default at present, to save as the best policy; see `load_policy`."""
        policy = policy or self._present()
        return to_arrays({"best": policy.greedy}) | (policy.normaliser.arrays() if policy.normaliser else {})

    def copy_policy(self) -> ActingParams:
        """Return the present policy for another thread to act with, which learning never changes.

        Its parameters are on the CPU, where an action does not wait for updates, and they are copies, because the
        arrays of the state are donated to the next update.
        """
        present = self._present()
        networks = present.params, present.average
        params, average = jax.device_put(jax.tree.map(np.array, networks), jax.devices("cpu")[0])
        return present._replace(params=params, average=average)

    def loaded_policy(self) -> "LoadedPolicy":
        """Return the present policy with its critics, which learning never changes."""
        state, average = jax.tree.map(jnp.copy, (self.state.algorithm, self.state.average))
        acting = ActingParams(self.algorithm.policy_params(state), self._present().normaliser, average)
        return LoadedPolicy(self.functions, acting, state)

    def reset(self, step: int) -> None:
        """Start again with new networks, or with what the algorithm resets; the replay memory is kept."""
        self.state = self._reset(self.state, at(key(self.settings.seed, Purpose.INITIALISE), step))
        self.version += 1

    def explore(self, obs: np.ndarray, step: int, policy: ActingParams | None = None) -> np.ndarray:
        """Choose actions to train with, for (environments, *obs) at an environment step; see `copy_policy`."""
        policy = policy or self._present()
        return np.asarray(self._explore(policy.params, observed(obs, policy.normaliser), step))

    def exploit(self, obs: np.ndarray, policy: ActingParams | None = None) -> np.ndarray:
        """Choose greedy actions for (environments, *obs); see `copy_policy`."""
        policy = policy or self._present()
        return np.asarray(self._exploit(policy.greedy, observed(obs, policy.normaliser)))

    def exploit_newest(self, obs: np.ndarray) -> np.ndarray:
        """Choose greedy actions of the newest policy, also where its average acts."""
        return self.exploit(obs, self._present()._replace(average=None))

    def learn(self, replay: Replay | MixedReplay, moment: Moment) -> None:
        """Make all updates of one learning step, on batches drawn for it."""
        self._compiling.join()
        batches = replay.sample(self._draws.at(moment.draw), self.rounds, self.settings.batch_size)
        if self.statistics:
            batches = self.statistics.normalise(batches)
        self.state, metrics = self._learn(self.state, batches, moment.step, moment.env_step)
        self.version += 1
        if isinstance(self._rule, ProbingRule) and self._rule.is_due(moment.step):
            self._measure(replay, moment)
        if moment.step % METRICS_EVERY == 0:
            self._metrics.append(metrics)
            if len(self._metrics) == METRICS_BUFFER:
                self._read_metrics()

    @property
    def has_constant_reuse(self) -> bool:
        """Whether M is one number."""
        return isinstance(self._rule, Schedule) and not self._rule.until

    def draw_probe(self, replay: Replay | MixedReplay, draw: int) -> Probe | None:
        """Draw trained and held-out rows by the random stream ``draw``; None while there are none of one kind."""
        pair = replay.sample_pair(self._probe_draws.at(draw), PROBE_ROWS)
        if pair is None:
            return None
        statistics = self.statistics
        trained, held_out = map(statistics.normalise, pair) if statistics else pair
        factor = statistics.reward_factor if statistics else 1.0
        return Probe(trained, held_out, factor * replay.largest_return())

    def diagnose(self, diagnostics: Diagnostics, replay: Replay | MixedReplay, step: int) -> dict[str, float]:
        """Measure the present networks after an environment step, by random numbers that nothing else uses."""
        settings, statistics = self.settings, self.statistics
        draw = DIAGNOSTIC_DRAWS + step
        drawn = replay.sample(self._probe_draws.at(draw), 1, ROWS)
        batch = Transition(*(field[0] for field in drawn))
        batch = statistics.normalise(batch) if statistics else batch
        probe = self.draw_probe(replay, draw) if settings.holds_out else None
        factor = statistics.reward_factor if statistics else 1.0
        random_key = at(key(settings.seed, Purpose.HOLD_OUT), draw)
        agent_step = step // settings.action_repeat
        return diagnostics(self.state.algorithm, batch, factor * replay.largest_return(), probe, agent_step, random_key)

    def _measure(self, replay: Replay | MixedReplay, moment: Moment) -> None:
        """Let the rule measure on held-out rows."""
        probe = self.draw_probe(replay, moment.draw)
        if probe is not None:
            carry = self._compare(self.state.algorithm, self.state.rule, probe, moment.step, moment.env_step)
            self.state = self.state._replace(rule=carry)

    def take_metrics(self) -> dict[str, float]:
        """Return the means of the metrics since the last call; empty if nothing was learned since."""
        self._read_metrics()
        sums, self._sums = self._sums, {}
        return {name: total / count if count else float("nan") for name, (total, count) in sorted(sums.items())}

    def counts(self) -> tuple[int, int]:
        """Return the number of batches drawn and of updates made so far."""
        return int(self.state.batches), int(self.state.updates)

    def _present(self) -> ActingParams:
        normaliser = self.statistics.normaliser if self.statistics else None
        return ActingParams(self.algorithm.policy_params(self.state.algorithm), normaliser, self.state.average)

    def _read_metrics(self) -> None:
        """Add the buffered metrics to their sums, except NaN, which stands for a metric that was not computed."""
        history, self._metrics = jax.device_get(self._metrics), []
        for name in history[0] if history else ():
            values = np.array([row[name] for row in history], np.float64)
            known = values[~np.isnan(values)]
            total, count = self._sums.get(name, (0.0, 0))
            self._sums[name] = (total + float(known.sum()), count + known.size)


@dataclass(frozen=True, eq=False)
class LoadedPolicy:
    """A policy with parameters that never change; batches of observations and actions are in the algorithm's units."""

    functions: ActingFunctions
    acting: ActingParams
    state: Any = None  # of the algorithm; None where only the policy was kept

    def act(self, obs: np.ndarray) -> np.ndarray:
        """Return the greedy actions."""
        return np.asarray(self.functions.exploit(self.acting.greedy, self._observed(obs)))

    def sample(self, obs: np.ndarray, agent_steps: int, seed: int) -> np.ndarray:
        """Return actions as training takes them after a number of agent steps."""
        randomness = key(seed, Purpose.EXPLORE)
        return np.asarray(self.functions.explore(self.acting.params, self._observed(obs), agent_steps, randomness))

    def q_values(self, obs: np.ndarray, actions: np.ndarray) -> np.ndarray:
        """Return the values of all critics, (critics, batch)."""
        q_values = self.functions.q_values
        if self.state is None:
            raise SmrlError(
                "this policy was kept without its critics, so it has no values: use run.policy, that of the newest "
                "checkpoint."
            )
        return np.asarray(q_values(self.state, self._observed(obs), actions))

    def layers(self) -> Sequence[Layer]:
        """Return `act` as layers; raise SmrlError if its algorithm does not describe it."""
        network, normaliser = self.functions.algorithm.network, self.acting.normaliser
        if network is None:
            raise SmrlError(
                f"the algorithm {self.functions.settings.algorithm} does not describe its policy, so it cannot be "
                "exported: give its Algorithm a function network(policy_params) that returns the layers of exploit; "
                "see docs/extend.md."
            )
        layers = network(jax.device_get(self.acting.greedy))
        return [Normalise(normaliser.mean, normaliser.scale, CLIP), *layers] if normaliser else layers

    def _observed(self, obs: np.ndarray) -> np.ndarray:
        return observed(obs, self.acting.normaliser)


def load_policy(settings: Settings[Any], spec: Spec, arrays: dict[str, np.ndarray], best: bool = False) -> LoadedPolicy:
    """Return the policy of a checkpoint: the newest with its critics, or the best so far without them."""
    functions = acting_functions(settings, spec)
    algorithm = functions.algorithm
    template = jax.eval_shape(algorithm.init, key(settings.seed, Purpose.INITIALISE))
    refuse_large_networks(template)
    normaliser = load_normaliser(settings, spec, arrays, best)
    policy = jax.eval_shape(algorithm.policy_params, template)
    if best:
        return LoadedPolicy(functions, ActingParams(from_arrays({"best": policy}, arrays)["best"], normaliser))
    average = None if settings.average_policy is None else policy
    found = from_arrays({"algorithm": template, "average": average}, arrays)
    acting = ActingParams(algorithm.policy_params(found["algorithm"]), normaliser, found["average"])
    return LoadedPolicy(functions, acting, found["algorithm"])


def averaged(average: Any, params: Any, weight: float) -> Any:
    """Return θ̄ ← θ̄ + w (θ − θ̄) for all parameters; counts and keys of a custom policy are the newest ones."""

    def leaf(old: Array, new: Array) -> Array:
        return old + weight * (new - old) if jnp.issubdtype(new.dtype, jnp.inexact) else new

    return jax.tree.map(leaf, average, params)


def to_arrays(tree: Any) -> dict[str, np.ndarray]:
    """Return the leaves of a pytree by their path.

    The leaf of a stacked ensemble is split into those of its members, so that names and shapes are the same on a GPU,
    where ensembles are stacked, and on a CPU.
    """
    arrays: dict[str, np.ndarray] = {}
    for path, leaf in jax.tree_util.tree_flatten_with_path(jax.device_get(tree))[0]:
        if MEMBERS in path:
            arrays |= dict(zip(_member_names(path, len(leaf)), map(np.asarray, leaf), strict=True))
        else:
            arrays[jax.tree_util.keystr(path)] = np.asarray(leaf)
    return arrays


def from_arrays(template: Any, arrays: dict[str, np.ndarray]) -> Any:
    """Return a pytree of the template's structure from the result of `to_arrays`."""

    def find(name: str, shape: tuple[int, ...], dtype: Any) -> np.ndarray:
        if name not in arrays or arrays[name].shape != shape or arrays[name].dtype != dtype:
            raise SmrlError(f"the checkpoint does not fit this algorithm at {name}; it was written by another version.")
        return arrays[name]

    def leaf(path: KeyPath, like: Any) -> jax.Array:
        if MEMBERS in path:
            names = _member_names(path, like.shape[0])
            return jax.numpy.array(np.stack([find(name, like.shape[1:], like.dtype) for name in names]))
        return jax.numpy.array(find(jax.tree_util.keystr(path), like.shape, like.dtype))

    return jax.tree_util.tree_map_with_path(leaf, template)


def shapes(template: Any) -> dict[str, tuple[tuple[int, ...], str]]:
    """Return the shape and dtype of each array that `to_arrays` would return."""
    found: dict[str, tuple[tuple[int, ...], str]] = {}
    for path, like in jax.tree_util.tree_flatten_with_path(template)[0]:
        if MEMBERS in path:
            found |= dict.fromkeys(_member_names(path, like.shape[0]), (like.shape[1:], str(like.dtype)))
        else:
            found[jax.tree_util.keystr(path)] = (like.shape, str(like.dtype))
    return found


def _member_names(path: KeyPath, size: int) -> list[str]:
    """Return the names of the members' leaves in the unstacked layout."""
    place = path.index(MEMBERS)
    before, after = (jax.tree_util.keystr(part) for part in (path[:place], path[place + 1 :]))
    return [f"{before}[{index}]{after}" for index in range(size)]
