// Winograd's form of 3×3 convolutions with stride 1, and its three products.
#pragma once

#include <cstdint>

namespace winograd {

// Images (count, height, width, channels).
struct Images {
  float* data;
  int64_t count, height, width, channels;
};

// Whether this form is faster than direct sums, for outputs of so many rows and columns.
bool is_faster(int64_t kernel, int64_t stride, int64_t inputs, int64_t outputs, int64_t rows, int64_t columns);

// y = max(x * W + bias, least), x with so many zeros around, and zero where the gate is not positive; it may be null, as
// may the bias. W is (3, 3, channels of x, channels of y), or mirrored and transposed (3, 3, channels of y, of x).
void convolve(const Images& x, int64_t padding, const float* weights, bool is_mirrored, const float* bias, float least,
              const float* gate, const Images& y);

// ∂W (3, 3, channels of x, channels of ∂y) and ∂b, of x and ∂y.
void weights(const Images& x, const Images& gradient, float* result, float* bias);

}  // namespace winograd
