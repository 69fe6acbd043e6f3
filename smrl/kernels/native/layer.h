// Products of single dense layers, for wide ones and for those with a single output.
#pragma once

#include <cstdint>

#include "tile.h"

struct Matrix {
  const float* data;
  int64_t rows, columns;
};

// y (rows × columns of W) = max(x W + b, least), by all threads; for weights that do not fit the caches.
void wide_layer(int64_t rows, const float* x, Matrix weights, const float* bias, float least, float* y);

// ∂x (rows × rows of W) = ∂y Wᵀ, zero where `mask`, of the same shape, is not positive; likewise.
void wide_layer_inputs(int64_t rows, const float* gradient, Matrix weights, const float* mask, float* result);

// The same of a layer with a single output, for some rows.
void single(int64_t rows, const float* x, const float* weights, float bias, float* y, int64_t in);
void single_inputs(int64_t rows, const float* gradient, const float* weights, const float* const* mask, float* result,
                   int64_t in);
