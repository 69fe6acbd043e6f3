#include "norm.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "simd.h"

namespace smrl {
namespace {

constexpr int TOGETHER = 3;  // rows of a gradient at a time: their sums, and those over rows, fit the registers

typedef float Four __attribute__((vector_size(16)));

// Return the sum of a vector.
float total(Vec values) {
  Four parts[WIDTH / 4];
  std::memcpy(parts, &values, sizeof(parts));
  for (int half = WIDTH / 8; half > 0; half /= 2) {
    for (int i = 0; i < half; i++) parts[i] += parts[i + half];
  }
  const Four pairs = parts[0] + __builtin_shufflevector(parts[0], parts[0], 2, 3, 0, 1);
  return pairs[0] + pairs[1];
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
template <int R, bool HAS_SUMS>
void gradient_rows(int64_t width, float* gradient, const float* const* x, const float* const* statistics,
                   const float* scale, const float* skip, float* sums, bool is_first) {
  const int64_t vectors = width - width % WIDTH;
  const float share = 1.0f / width;
  Vec plain[R] = {}, weighted[R] = {};  // the sums of g′ and of g′ (x − mean)
  float offset[R], slope[R];
  const auto add_to_sums = [&](int64_t i, auto by_scale, auto by_shift, auto load, auto store) {
    if (!HAS_SUMS) return;
    store(sums + i, is_first ? by_scale : load(sums + i) + by_scale);
    store(sums + width + i, is_first ? by_shift : load(sums + width + i) + by_shift);
  };
  for (int64_t i = 0; i < vectors; i += WIDTH) {
    Vec by_scale = {}, by_shift = {};
    const Vec factor = load(scale + i);
#pragma GCC unroll 4
    for (int r = 0; r < R; r++) {
      const Vec g = load(gradient + r * width + i), product = g * (load(x[r] + i) - statistics[r][0]);
      plain[r] += g * factor;
      weighted[r] += product * factor;
      by_scale += product * statistics[r][1];
      by_shift += g;
    }
    add_to_sums(i, by_scale, by_shift, load, store);
  }
  for (int r = 0; r < R; r++) offset[r] = total(plain[r]), slope[r] = total(weighted[r]);
  for (int64_t i = vectors; i < width; i++) {
    float by_scale = 0, by_shift = 0;
    for (int r = 0; r < R; r++) {
      const float g = gradient[r * width + i], product = g * (x[r][i] - statistics[r][0]);
      offset[r] += g * scale[i];
      slope[r] += product * scale[i];
      by_scale += product * statistics[r][1];
      by_shift += g;
    }
    add_to_sums(
        i, by_scale, by_shift, [](const float* from) { return *from; }, [](float* to, float value) { *to = value; });
  }
  for (int r = 0; r < R; r++) {
    const float mean = statistics[r][0], factor = statistics[r][1];
    const float shift = -offset[r] * share * factor, tilt = -slope[r] * share * factor * factor * factor;
    float* g = gradient + r * width;
    const auto result = [&](auto value, auto from, auto scaled) {
      return value * scaled * factor + ((from - mean) * tilt + shift);
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
  const float share = 1.0f / width;
  for (int64_t first = 0; first < rows; first += ROWS) {
    const int64_t count = std::min<int64_t>(ROWS, rows - first);
    float means[ROWS], factors[ROWS];  // of several rows, because each takes long to wait for
    for (int64_t r = 0; r < count; r++)
      means[r] = sum(width, x + (first + r) * width, [](auto value) { return value; }) * share;
    for (int64_t r = 0; r < count; r++) {
      const float mean = means[r];
      const auto square = [&](auto value) { return (value - mean) * (value - mean); };
      factors[r] = 1 / std::sqrt(sum(width, x + (first + r) * width, square) * share + norm.epsilon);
    }
    for (int64_t r = 0; r < count; r++) {
      const float* from = x + (first + r) * width;
      const float mean = means[r], factor = factors[r];
      float* to = y + (first + r) * width;
      int64_t i = 0;
      for (; i + WIDTH <= width; i += WIDTH) {
        const Vec value = (load(from + i) - mean) * factor * load(norm.scale + i) + load(norm.shift + i);
        store(to + i, larger(value, Vec{} + floor));
      }
      for (; i < width; i++) {
        const float value = (from[i] - mean) * factor * norm.scale[i] + norm.shift[i];
        to[i] = floor > value ? floor : value;  // NaN stays
      }
      if (statistics) statistics[2 * (first + r)] = mean, statistics[2 * (first + r) + 1] = factor;
    }
  }
}

void normalise_gradient(int64_t rows, int64_t width, float* gradient, const float* const* x,
                        const float* const* statistics, const float* scale, const float* skip, float* sums) {
  const auto full = sums ? gradient_rows<TOGETHER, true> : gradient_rows<TOGETHER, false>;
  const auto single = sums ? gradient_rows<1, true> : gradient_rows<1, false>;
  for (int64_t row = 0; row < rows;) {
    const bool is_full = row + TOGETHER <= rows;
    (is_full ? full : single)(width, gradient + row * width, x + row, statistics + row, scale,
                              skip ? skip + row * width : nullptr, sums, row == 0);
    row += is_full ? TOGETHER : 1;
  }
}

}  // namespace smrl
