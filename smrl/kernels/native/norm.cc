#include "norm.h"

#include <cmath>

#include "simd.h"

namespace smrl {
namespace {

constexpr int TOGETHER = 3;  // rows of a gradient at a time: their sums, and those over rows, fit the registers

// Return the sum of a vector, in pairs.
float total(Vec values) {
  float sums[WIDTH];
  store(sums, values);
  for (int half = WIDTH / 2; half > 0; half /= 2) {
    for (int i = 0; i < half; i++) sums[i] += sums[i + half];
  }
  return sums[0];
}

// Return Σ f(x) of a row; f takes vectors and numbers.
template <class F>
float sum(int64_t width, const float* x, F f) {
  Vec sums[4] = {};
  int64_t i = 0;
  for (; i + 4 * WIDTH <= width; i += 4 * WIDTH) {
    for (int c = 0; c < 4; c++) sums[c] += f(load(x + i + c * WIDTH));
  }
  for (; i + WIDTH <= width; i += WIDTH) sums[0] += f(load(x + i));
  float result = total((sums[0] + sums[1]) + (sums[2] + sums[3]));
  for (; i < width; i++) result += f(x[i]);
  return result;
}

// `normalise_gradient` for R rows. If there were rows before, their sums are in `sums`.
template <int R>
void gradient_rows(int64_t width, float* gradient, const float* const* x, const float* const* statistics,
                   const float* scale, const float* skip, float* sums, bool is_first) {
  const int64_t vectors = width - width % WIDTH;
  const auto normalised = [&](int r, auto value) { return (value - statistics[r][0]) * statistics[r][1]; };
  Vec plain[R] = {}, weighted[R] = {};  // the sums of g′ and of g′ x̂
  float mean[R], slope[R];
  for (int64_t i = 0; i < vectors; i += WIDTH) {
    Vec by_scale = {}, by_shift = {};
    const Vec factor = load(scale + i);
#pragma GCC unroll 4
    for (int r = 0; r < R; r++) {
      const Vec g = load(gradient + r * width + i), product = g * normalised(r, load(x[r] + i));
      plain[r] += g * factor;
      weighted[r] += product * factor;
      by_scale += product;
      by_shift += g;
    }
    if (sums) {
      store(sums + i, is_first ? by_scale : load(sums + i) + by_scale);
      store(sums + width + i, is_first ? by_shift : load(sums + width + i) + by_shift);
    }
  }
  for (int r = 0; r < R; r++) mean[r] = total(plain[r]), slope[r] = total(weighted[r]);
  for (int64_t i = vectors; i < width; i++) {
    float by_scale = 0, by_shift = 0;
    for (int r = 0; r < R; r++) {
      const float g = gradient[r * width + i], product = g * normalised(r, x[r][i]);
      mean[r] += g * scale[i];
      slope[r] += product * scale[i];
      by_scale += product;
      by_shift += g;
    }
    if (sums) {
      sums[i] = is_first ? by_scale : sums[i] + by_scale;
      sums[width + i] = is_first ? by_shift : sums[width + i] + by_shift;
    }
  }
  for (int r = 0; r < R; r++) {
    mean[r] /= width, slope[r] /= width;
    float* g = gradient + r * width;
    const auto result = [&](auto value, auto from, auto factor) {
      return (value * factor - mean[r] - normalised(r, from) * slope[r]) * statistics[r][1];
    };
    int64_t i = 0;
    for (; i < vectors; i += WIDTH) {
      const Vec value = result(load(g + i), load(x[r] + i), load(scale + i));
      store(g + i, skip ? value + load(skip + r * width + i) : value);
    }
    for (; i < width; i++) {
      const float value = result(g[i], x[r][i], scale[i]);
      g[i] = skip ? value + skip[r * width + i] : value;
    }
  }
}

}  // namespace

void normalise(int64_t rows, int64_t width, const float* x, const Norm& norm, float floor, float* y,
               float* statistics) {
  for (int64_t row = 0; row < rows; row++, x += width, y += width) {
    const float mean = sum(width, x, [](auto value) { return value; }) / width;
    const float variance = sum(width, x, [&](auto value) { return (value - mean) * (value - mean); }) / width;
    const float factor = 1 / std::sqrt(variance + norm.epsilon);
    int64_t i = 0;
    for (; i + WIDTH <= width; i += WIDTH) {
      const Vec value = (load(x + i) - mean) * factor * load(norm.scale + i) + load(norm.shift + i);
      store(y + i, larger(value, Vec{} + floor));
    }
    for (; i < width; i++) {
      const float value = (x[i] - mean) * factor * norm.scale[i] + norm.shift[i];
      y[i] = floor > value ? floor : value;  // NaN stays
    }
    if (statistics) statistics[2 * row] = mean, statistics[2 * row + 1] = factor;
  }
}

void normalise_gradient(int64_t rows, int64_t width, float* gradient, const float* const* x,
                        const float* const* statistics, const float* scale, const float* skip, float* sums) {
  for (int64_t row = 0; row < rows;) {
    const bool is_full = row + TOGETHER <= rows;
    (is_full ? gradient_rows<TOGETHER> : gradient_rows<1>)(width, gradient + row * width, x + row, statistics + row,
                                                           scale, skip ? skip + row * width : nullptr, sums, row == 0);
    row += is_full ? TOGETHER : 1;
  }
}

}  // namespace smrl
