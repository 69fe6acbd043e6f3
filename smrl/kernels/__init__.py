"""Kernels in C++ for the CPU: dense layers, convolutions and Adam, which XLA calls as foreign functions."""
