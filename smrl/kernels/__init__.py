"""Arithmetic of the updates: networks of dense layers, convolutions, Adam, projections and soft updates.

Each function runs a C++ kernel on the CPU, or its XLA twin where there are no kernels (see `library`).
"""

from smrl.kernels.convolution import convolutions
from smrl.kernels.dense import mlp
from smrl.kernels.optimizer import adam, polyak, project

__all__ = ["adam", "convolutions", "mlp", "polyak", "project"]
