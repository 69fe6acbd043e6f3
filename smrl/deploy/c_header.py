"""The target c: one header for C99 and C++ that allocates nothing and needs only the C library's math.h."""

import ctypes
import math
import os
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from smrl.deploy.description import Description
from smrl.deploy.policy import Network
from smrl.errors import SmrlError, require
from smrl.layers import (
    Activation,
    Argmax,
    BestActor,
    Dense,
    Flatten,
    Layer,
    LayerNorm,
    Normalise,
    Pad,
    Rescale,
    Residual,
)

FILE, SIGNATURE = "policy.h", "int smrl_policy(const float *observation, float *action)"
POINTER = ctypes.POINTER(ctypes.c_float)
LARGEST_INDEX = 2**24  # whole numbers up to here are floats
FUNCTIONS = {
    "relu": "v > 0 ? v : 0",
    "leaky-relu": "v > 0 ? v : 0.01f * v",
    "elu": "v > 0 ? v : expm1f(v)",
    "gelu": "0.5f * v * (1 + tanhf(0.7978845608f * (v + 0.044715f * v * v * v)))",
    "silu": "v / (1 + expf(-v))",
    "tanh": "tanhf(v)",
}
HEAD = """\
/* A greedy policy, written by `smrl export --to c`; contract.json beside it describes it.
 *
 *     float observation[SMRL_OBSERVATION_SIZE], action[SMRL_ACTION_SIZE];
 *     if (smrl_policy(observation, action) != 0) {{ ... an observation is not finite, and the action is not set ... }}
 *
 * C99 or C++. Nothing is allocated; SMRL_STACK_SIZE bytes of the stack are used. Do not compile it with -ffast-math,
 * which removes the check of the observation. */
#ifndef SMRL_POLICY_H
#define SMRL_POLICY_H

#include <math.h>

#define SMRL_POLICY_DIGEST "{digest}"
#define SMRL_OBSERVATION_SIZE {inputs}
#define SMRL_ACTION_SIZE {outputs}
#define SMRL_STACK_SIZE {stack}

#if defined(__GNUC__) || defined(_MSC_VER)
#define SMRL_RESTRICT __restrict
#else
#define SMRL_RESTRICT
#endif
"""
HELPERS = """\
static inline float smrl_clip(float v, float low, float high) { return v < low ? low : v > high ? high : v; }

/* y = x W + b; four inputs at a time, so that y is read and written less often. */
static inline void smrl_dense(const float *SMRL_RESTRICT x, int inputs, float *SMRL_RESTRICT y, int outputs,
                              const float *SMRL_RESTRICT w, const float *SMRL_RESTRICT b) {
  int i = 0, j;
  for (j = 0; j < outputs; ++j) y[j] = b[j];
  for (; i + 4 <= inputs; i += 4, w += 4 * outputs) {
    const float x0 = x[i], x1 = x[i + 1], x2 = x[i + 2], x3 = x[i + 3];
    const float *SMRL_RESTRICT w1 = w + outputs, *SMRL_RESTRICT w2 = w1 + outputs, *SMRL_RESTRICT w3 = w2 + outputs;
    for (j = 0; j < outputs; ++j) y[j] += x0 * w[j] + x1 * w1[j] + x2 * w2[j] + x3 * w3[j];
  }
  for (; i < inputs; ++i, w += outputs)
    for (j = 0; j < outputs; ++j) y[j] += x[i] * w[j];
}
"""
POLICY = """\
/* Set the action for an observation and return 0, or return -1 if the observation is not finite. */
static inline int smrl_policy(const float *observation, float *action) {
  for (int i = 0; i < SMRL_OBSERVATION_SIZE; ++i)
    if (observation[i] - observation[i] != 0) return -1;
  smrl_network(observation, action);
  return 0;
}

#endif
"""
LIBRARY = """\
#include "policy.h"
int smrl_batch(const float *observations, float *actions, int count) {
  for (; count > 0; --count, observations += SMRL_OBSERVATION_SIZE, actions += SMRL_ACTION_SIZE)
    if (smrl_policy(observations, actions) != 0) return -1;
  return 0;
}
"""


def write(folder: Path, description: Description) -> None:
    """Write policy.h."""
    require(
        not description.is_image,
        "the target c is for policies of vectors, and this one sees images: export it with --to onnx or --to numpy.",
    )
    last = description.layers[-1]
    if isinstance(last, Argmax) and not -LARGEST_INDEX <= last.start <= LARGEST_INDEX:
        raise SmrlError(f"the target c returns actions as floats, in which {last.start:,} is not exact: use --to onnx.")
    code = Code()
    inputs = math.prod(description.obs_shape)
    outputs, stack = code.network("smrl_network", description.layers, inputs)
    head = HEAD.format(digest=description.digest, inputs=inputs, outputs=outputs, stack=4 * stack)
    (folder / FILE).write_text("\n".join([head, *code.arrays, HELPERS, *code.functions, POLICY]), encoding="ascii")


def load(folder: Path, description: Description) -> tuple[Callable[[np.ndarray], Any], str]:
    """Compile the header and return its policy; without a compiler, return the same layers in NumPy."""
    compiler = find_compiler()
    if compiler is None:
        network = Network(*description.described)
        shape = description.action_shape
        return lambda obs: network(obs).reshape(-1, *shape), "its layers in NumPy, because there is no C compiler"
    with tempfile.TemporaryDirectory() as place:
        library = compile_library(compiler, folder, Path(place))

    def act(obs: np.ndarray) -> np.ndarray:
        obs = np.ascontiguousarray(obs, np.float32)
        actions = np.empty((len(obs), *description.action_shape), np.float32)
        require(library.smrl_batch(*(values.ctypes.data_as(POINTER) for values in (obs, actions)), len(obs)) == 0, "…")
        return actions.astype(description.action_dtype)

    return act, f"the header compiled by {Path(compiler[0]).name}"


def find_compiler() -> list[str] | None:
    """Return the command of the C compiler: that of the environment variable CC, or else cc, gcc or clang."""
    chosen = shlex.split(os.environ.get("CC", ""))
    return chosen or next(([name] for name in ("cc", "gcc", "clang") if shutil.which(name)), None)


def compile_library(compiler: list[str], folder: Path, place: Path) -> ctypes.CDLL:
    """Compile the header in a folder to a shared library in a place, and load it."""
    source, library = place / "policy.c", place / "policy.so"
    source.write_text(LIBRARY)
    flags = ["-std=c99", "-O2", "-shared", "-fPIC", "-I", str(folder)]
    command = [*compiler, *flags, str(source), "-o", str(library), "-lm"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, errors="replace")
    except OSError as error:
        raise SmrlError(f"the C compiler {compiler[0]} cannot be started ({error.strerror}); set CC.") from error
    problem = next((line for line in done.stderr.splitlines() if "error" in line), "no reason given")
    require(done.returncode == 0, f"{compiler[0]} cannot compile the header ({problem}); set CC to another compiler.")
    try:
        return ctypes.CDLL(str(library))
    except OSError as error:
        raise SmrlError(f"the compiled header cannot be loaded ({error}); set TMPDIR to another folder.") from error


class Code:
    """Arrays and functions of a header that is being written."""

    def __init__(self) -> None:
        self.arrays: list[str] = []
        self.functions: list[str] = []

    def array(self, name: str, values: np.ndarray) -> str:
        """Add a constant array and return its name; nine digits are enough to read every float back exactly."""
        texts = [f"{value:.9g}" for value in values.astype(np.float32).ravel().tolist()]
        numbers = [f"{text}f" if set(text) & set(".e") else f"{text}.0f" for text in texts]
        lines = [", ".join(numbers[start : start + 8]) for start in range(0, len(numbers), 8)]
        self.arrays.append(f"static const float {name}[{len(numbers)}] = {{\n  " + ",\n  ".join(lines) + "};\n")
        return name

    def network(self, name: str, layers: Sequence[Layer], size: int) -> tuple[int, int]:
        """Add a function that maps x to y by layers; return the size of y and the floats on the stack."""
        steps = [layer for layer in layers if not isinstance(layer, Flatten)]
        lines: list[str] = []
        buffers, source, nested = {"a": 0, "b": 0}, "x", 0
        for index, layer in enumerate(steps):
            target = "y" if index + 1 == len(steps) else "ab"[index % 2]
            text, size, calls = self.layer(f"{name}_{index}", layer, source, target, size)
            lines += text
            nested, source = max(nested, calls), target
            if target in buffers:
                buffers[target] = max(buffers[target], size)
        declared = "".join(f"  float {buffer}[{width}];\n" for buffer, width in buffers.items() if width)
        body = "".join(f"  {line}\n" for line in lines)
        signature = f"static inline void {name}(const float *SMRL_RESTRICT x, float *SMRL_RESTRICT y) {{"
        self.functions.append(f"{signature}\n{declared}{body}}}\n")
        return size, sum(buffers.values()) + nested

    def layer(self, name: str, layer: Layer, x: str, y: str, size: int) -> tuple[list[str], int, int]:
        """Return the statements that map x of a size to y by a layer, the size of y, and the floats on the stack."""
        each = f"for (int i = 0; i < {size}; ++i)"
        match layer:
            case Pad(zeros):
                rest = f"for (int i = {size}; i < {size + zeros}; ++i) {y}[i] = 0;"
                return [f"{each} {y}[i] = {x}[i];", rest], size + zeros, 0
            case Normalise(mean, scale, limit):
                arrays = self.array(f"{name}_mean", mean), self.array(f"{name}_scale", scale)
                bound = f"(float){limit:.9g}"
                scaled = f"const float v = ({x}[i] - {arrays[0]}[i]) * {arrays[1]}[i];"
                return [f"{each} {{ {scaled} {y}[i] = smrl_clip(v, -{bound}, {bound}); }}"], size, 0
            case Dense(weights, bias):
                arrays = self.array(f"{name}_weights", weights), self.array(f"{name}_bias", bias)
                return [f"smrl_dense({x}, {size}, {y}, {len(bias)}, {', '.join(arrays)});"], len(bias), 0
            case Activation(function):
                return [f"{each} {{ const float v = {x}[i]; {y}[i] = {FUNCTIONS[function]}; }}"], size, 0
            case LayerNorm(scale, bias, epsilon):
                arrays = self.array(f"{name}_scale", scale), self.array(f"{name}_bias", bias)
                return (
                    [
                        "{",
                        "  float mean = 0, variance = 0;",
                        f"  {each} mean += {x}[i] / {size};",
                        f"  {each} variance += ({x}[i] - mean) * ({x}[i] - mean) / {size};",
                        f"  const float factor = 1 / sqrtf(variance + {epsilon:.9g}f);",
                        f"  {each} {y}[i] = ({x}[i] - mean) * factor * {arrays[0]}[i] + {arrays[1]}[i];",
                        "}",
                    ],
                    size,
                    0,
                )
            case Argmax(start):
                search = f"for (int i = 1; i < {size}; ++i) if ({x}[i] > {x}[best]) best = i;"
                return ["int best = 0;", search, f"{y}[0] = (float)(best + ({start}));"], 1, 0
            case Rescale(reach, centre, low, high):
                inner = {"reach": reach, "centre": centre, "low": _inside(low, high), "high": _inside(high, low)}
                names = [f"{self.array(f'{name}_{part}', values)}[i]" for part, values in inner.items()]
                scaled = f"const float v = {x}[i] * {names[0]} + {names[1]};"
                return [f"{each} {{ {scaled} {y}[i] = smrl_clip(v, {names[2]}, {names[3]}); }}"], size, 0
            case Residual(branches):
                lines, stacks = [f"float part[{size}];", f"{each} {y}[i] = {x}[i];"], []
                for number, branch in enumerate(branches):
                    stacks.append(self.network(f"{name}_branch_{number}", branch, size)[1])
                    lines += [f"{name}_branch_{number}({x}, part);", f"{each} {y}[i] += part[i];"]
                return ["{", *(f"  {line}" for line in lines), "}"], size, size + max(stacks)
            case BestActor():
                return self.best_actor(name, layer, x, y, size)
        raise SmrlError(f"the target c has no layer {type(layer).__name__}: export with --to onnx or --to numpy.")

    def best_actor(self, name: str, layer: BestActor, x: str, y: str, size: int) -> tuple[list[str], int, int]:
        """Return the statements of a choice among actors by critics; see `layer`."""
        found = [self.network(f"{name}_actor_{index}", actor, size) for index, actor in enumerate(layer.actors)]
        actions = found[0][0]
        found += [
            self.network(f"{name}_critic_{index}", critic, size + actions) for index, critic in enumerate(layer.critics)
        ]
        copy = f"for (int i = 0; i < {actions}; ++i) {y}[i] = pair[{size} + i];"
        lines = [f"float pair[{size + actions}], q, value, best_value = 0;"]
        lines.append(f"for (int i = 0; i < {size}; ++i) pair[i] = {x}[i];")
        for index in range(len(layer.actors)):
            lines.append(f"{name}_actor_{index}({x}, pair + {size});")
            critics = [index] if layer.own_critic else range(len(layer.critics))
            lines.append(f"{name}_critic_{critics[0]}(pair, &value);")
            lines += [f"{name}_critic_{other}(pair, &q); if (q > value) value = q;" for other in critics[1:]]
            condition = f"if (value > best_value) {{ best_value = value; {copy} }}"
            lines.append(condition if index else f"best_value = value; {copy}")
        return lines, actions, size + actions + max(stack for _, stack in found)


def _inside(bound: np.ndarray, other: np.ndarray) -> np.ndarray:
    """Return bounds as floats that do not exceed them, because a double is rounded to the nearest float."""
    rounded = bound.astype(np.float32)
    exceeds = np.sign(bound - other) * (rounded - bound) > 0
    return np.where(exceeds, np.nextafter(rounded, other.astype(np.float32)), rounded)
