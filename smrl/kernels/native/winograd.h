// 3×3 convolutions with stride 1 and their gradients in Winograd's form, with a quarter of the multiplications.
#pragma once

#include "images.h"

namespace smrl::winograd {

// Return whether this form applies and is faster, which it is not with few channels or for tiny images.
bool is_faster(int64_t kernel, int64_t stride, const Images& from, const Images& to);

// y = max(x * W + bias, floor), or zero where the ReLU mask is not positive. x is padded with zeros. Bias and mask may
// be null. W is (3, 3, channels of x, of y), or with `is_mirrored` (3, 3, channels of y, of x) and mirrored.
void convolve(const Images& x, int64_t padding, const float* weights, bool is_mirrored, const float* bias, float floor,
              const float* relu_mask, const Images& y);

// Compute ∂W (3, 3, channels of x, of ∂y) and ∂b from x and ∂y.
void weight_gradient(const Images& x, const Images& gradient, float* result, float* bias);

}  // namespace smrl::winograd
