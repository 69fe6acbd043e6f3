"""The target onnx: a model with the input ``observation``, the output ``action`` and a dynamic batch axis."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from smrl.deploy.description import Description
from smrl.layers import (
    Activation,
    Argmax,
    BestActor,
    Convolution,
    Dense,
    Flatten,
    Image,
    Layer,
    LayerNorm,
    Normalise,
    Pad,
    Rescale,
    Residual,
)
from smrl.plugins import import_module

FILE = "policy.onnx"
OPSET, IR_VERSION = 17, 8  # the first opset with LayerNormalization, and the format that came with it
INSTALL = 'pip install "smrl[export]"'
FUNCTIONS: dict[str, tuple[str, dict[str, Any]]] = {  # functions that are one operator, with its attributes
    "relu": ("Relu", {}),
    "leaky-relu": ("LeakyRelu", {"alpha": 0.01}),
    "elu": ("Elu", {"alpha": 1.0}),
    "tanh": ("Tanh", {}),
}


def write(folder: Path, description: Description) -> None:
    """Write policy.onnx."""
    onnx = import_module("onnx", INSTALL)
    graph = Graph(onnx)
    result = graph.layers("observation", description.layers)
    if description.action_dtype not in ("float32", "int64"):
        result = graph.add("Cast", result, to=graph.dtype(description.action_dtype))
    shape = np.array([-1, *description.action_shape])
    graph.add("Reshape", result, shape, output="action")
    helper, batch = onnx.helper, ["batch"]
    inputs = (graph.dtype(description.spec.obs.dtype), [*batch, *description.obs_shape])
    outputs = (graph.dtype(description.action_dtype), [*batch, *description.action_shape])
    made = helper.make_graph(
        graph.nodes,
        "policy",
        [helper.make_tensor_value_info("observation", *inputs)],
        [helper.make_tensor_value_info("action", *outputs)],
        graph.constants,
    )
    opsets = [helper.make_opsetid("", OPSET)]
    model = helper.make_model(made, opset_imports=opsets, ir_version=IR_VERSION, producer_name="smrl")
    onnx.checker.check_model(model, full_check=True)
    onnx.save_model(model, folder / FILE)


def load(folder: Path, description: Description) -> tuple[Callable[[np.ndarray], Any], str]:
    """Load the model by onnxruntime, or by ONNX's reference evaluator where that is not installed."""
    try:
        runtime = import_module("onnxruntime")
    except Exception:
        evaluator = import_module("onnx.reference", INSTALL).ReferenceEvaluator(str(folder / FILE))
        return lambda obs: evaluator.run(None, {"observation": obs})[0], "ONNX's reference evaluator"
    session = runtime.InferenceSession(folder / FILE, providers=["CPUExecutionProvider"])
    return lambda obs: session.run(None, {"observation": obs})[0], "onnxruntime"


class Graph:
    """Nodes and constants of a model that is being built; every value has a batch axis."""

    def __init__(self, onnx: Any) -> None:
        self.onnx = onnx
        self.nodes: list[Any] = []
        self.constants: list[Any] = []

    def dtype(self, name: str) -> int:
        """Return ONNX's number of a dtype."""
        return int(self.onnx.helper.np_dtype_to_tensor_dtype(np.dtype(name)))

    def add(self, operator: str, *inputs: str | np.ndarray | np.generic, output: str = "", **attributes: Any) -> str:
        """Add a node, whose arrays become constants, and return the name of its output."""
        names = [value if isinstance(value, str) else self.constant(value) for value in inputs]
        output = output or f"{operator.lower()}_{len(self.nodes)}"
        self.nodes.append(self.onnx.helper.make_node(operator, names, [output], output, **attributes))
        return output

    def constant(self, value: np.ndarray | np.generic) -> str:
        """Add a constant and return its name."""
        name = f"constant_{len(self.constants)}"
        self.constants.append(self.onnx.numpy_helper.from_array(np.asarray(value, order="C"), name))
        return name

    def layers(self, x: str, layers: Sequence[Layer]) -> str:
        """Add layers in turn."""
        for layer in layers:
            x = self.layer(x, layer)
        return x

    def layer(self, x: str, layer: Layer) -> str:
        """Add a layer and return the name of its output."""
        match layer:
            case Flatten():
                return self.add("Reshape", x, np.array([0, -1]))
            case Pad(zeros):
                return self.add("Pad", x, np.array([0, 0, 0, zeros]))
            case Normalise(mean, scale, limit):
                scaled = self.add("Mul", self.add("Sub", x, mean), scale)
                return self.add("Clip", scaled, np.float32(-limit), np.float32(limit))
            case Image(centre):
                x = self.add("Cast", x, to=self.dtype("float32"))
                return self.add("Sub", self.add("Div", x, np.float32(255)), np.float32(centre))
            case Dense(weights, bias):
                return self.add("Gemm", x, weights, bias)
            case Convolution(weights, bias, stride):
                x = self.add("Transpose", x, perm=[0, 3, 1, 2])
                x = self.add("Conv", x, weights.transpose(3, 2, 0, 1), bias, strides=[stride, stride])
                return self.add("Transpose", x, perm=[0, 2, 3, 1])
            case Activation(function):
                return self.activation(x, function)
            case LayerNorm(scale, bias, epsilon):
                return self.add("LayerNormalization", x, scale, bias, axis=-1, epsilon=epsilon)
            case Residual(branches):
                return self.add("Sum", x, *(self.layers(x, branch) for branch in branches))
            case BestActor():
                return self.best_actor(x, layer)
            case Argmax(start):
                x = self.add("ArgMax", x, axis=1, keepdims=0)
                return self.add("Add", x, np.int64(start))
            case Rescale(reach, centre, low, high):
                dtype = np.result_type(reach, np.float32)
                if dtype != np.float32:
                    x = self.add("Cast", x, to=self.dtype(dtype.name))
                scaled = self.add("Add", self.add("Mul", x, reach.astype(dtype)), centre.astype(dtype))
                return self.add("Min", self.add("Max", scaled, low.astype(dtype)), high.astype(dtype))

    def activation(self, x: str, function: str) -> str:
        """Add an activation function."""
        if function in FUNCTIONS:
            operator, attributes = FUNCTIONS[function]
            return self.add(operator, x, **attributes)
        if function == "silu":
            return self.add("Mul", x, self.add("Sigmoid", x))
        # gelu: x / 2 (1 + tanh(√(2/π) (x + 0.044715 x³)))
        cube = self.add("Mul", self.add("Mul", x, x), x)
        inner = self.add("Add", x, self.add("Mul", cube, np.float32(0.044715)))
        tanh = self.add("Tanh", self.add("Mul", inner, np.float32((2 / np.pi) ** 0.5)))
        return self.add("Mul", self.add("Mul", x, np.float32(0.5)), self.add("Add", tanh, np.float32(1)))

    def best_actor(self, x: str, layer: BestActor) -> str:
        """Add actors, their critics, and the choice among them."""
        best, best_value = "", ""
        for index, actor in enumerate(layer.actors):
            action = self.layers(x, actor)
            pair = self.add("Concat", x, action, axis=1)
            critics = [layer.critics[index]] if layer.own_critic else layer.critics
            values = [self.layers(pair, critic) for critic in critics]
            value = self.add("Max", *values)
            if best:
                best = self.add("Where", self.add("Greater", value, best_value), action, best)
                value = self.add("Max", best_value, value)
            best, best_value = best or action, value
        return best
