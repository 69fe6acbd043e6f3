// Matrix products of one dense layer: for weights that do not fit the caches, and for layers with a single output.
#pragma once

#include <cstdint>

#include "tile.h"

namespace smrl {

struct Matrix {
  const float* data;
  int64_t rows, columns;
};

// out (rows × columns of W) = x W, on all threads, for weights that do not fit the caches.
void wide_layer(int64_t rows, const float* x, Matrix weights, const Output& out);

// ∂x (rows × rows of W) = ∂y Wᵀ, likewise. It is zero where the mask, of the same shape or null, is not positive.
void wide_layer_input_gradient(int64_t rows, const float* gradient, Matrix weights, const float* relu_mask,
                               float* result);

// The same for some rows of a layer with a single output, on this thread. The mask is a pointer for every row, or null.
void single_output(int64_t rows, const float* x, const float* weights, float bias, float* y, int64_t in);
void single_output_input_gradient(int64_t rows, const float* gradient, const float* weights,
                                  const float* const* relu_mask, float* result, int64_t in);

}  // namespace smrl
