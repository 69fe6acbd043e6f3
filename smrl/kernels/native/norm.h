// LayerNorm of rows, and its gradient. Both run on this thread.
#pragma once

#include <cstdint>

namespace smrl {

struct Norm {
  const float *scale, *shift;
  float epsilon;
};

// y = max(x̂ · scale + shift, floor), x̂ = (x − mean) / √(variance + ε), with the mean and the biased variance of a row.
//
// With `statistics`, (rows × 2), the mean and 1 / √(variance + ε) of every row are written there.
void normalise(int64_t rows, int64_t width, const float* x, const Norm& norm, float floor, float* y, float* statistics);

// Replace the gradient of x̂ · scale + shift, g, by that of x: (g′ − mean g′ − x̂ · mean (g′ x̂)) / √(variance + ε), with
// g′ = g · scale. With `skip`, of the same shape, add this to it. With `sums`, (2 × width), write Σ g x̂ and Σ g over the
// rows there, the gradients of scale and shift. Every row of x and of the statistics has its own pointer.
void normalise_gradient(int64_t rows, int64_t width, float* gradient, const float* const* x,
                        const float* const* statistics, const float* scale, const float* skip, float* sums);

}  // namespace smrl
