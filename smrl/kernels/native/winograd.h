// The three products of a 3×3 convolution with stride 1 in Winograd's form, with a quarter of the multiplications.
#pragma once

#include "images.h"

namespace winograd {

// Whether this form is the faster one: not with another kernel, nor with few channels, nor for tiny images.
bool is_faster(int64_t kernel, int64_t stride, const Images& from, const Images& to);

// y = max(x * W + bias, least), and zero where the gate is not positive; x gets so many zeros around. Bias and gate may
// be null. W is (3, 3, channels of x, of y), or with `is_mirrored` (3, 3, channels of y, of x) and mirrored.
void convolve(const Images& x, int64_t padding, const float* weights, bool is_mirrored, const float* bias, float least,
              const float* gate, const Images& y);

// x, ∂y → ∂W (3, 3, channels of x, of ∂y), ∂b
void weights(const Images& x, const Images& gradient, float* result, float* bias);

}  // namespace winograd
