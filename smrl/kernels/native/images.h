// Shared by the kernels for images, (count, height, width, channels).
#pragma once

#include <algorithm>
#include <cstdint>

#include "call.h"
#include "tile.h"

namespace smrl {

struct Images {
  float* data;
  int64_t count, height, width, channels;
  explicit Images(const Array<float>& array)
      : data(array.data), count(array.dims[0]), height(array.dims[1]), width(array.dims[2]), channels(array.dims[3]) {}
  int64_t at(int64_t image, int64_t row, int64_t column) const {
    return ((image * height + row) * width + column) * channels;
  }
};

// Return the outputs of a convolution along one side of an image.
inline int64_t side_after(int64_t side, int64_t kernel, int64_t stride) {
  require(stride > 0 && kernel <= side, "the stride is not positive, or the kernel does not fit into the image");
  return (side - kernel) / stride + 1;
}

// Load up to WIDTH floats into a vector; the rest is zero.
inline Vec get(const float* from, int64_t count) {
  if (count >= WIDTH) return load(from);
  float values[WIDTH] = {};
  for (int64_t i = 0; i < count; i++) values[i] = from[i];
  return load(values);
}

// Store up to WIDTH floats of a vector.
inline void put(float* to, Vec value, int64_t count) {
  if (count >= WIDTH) return store(to, value);
  float values[WIDTH];
  store(values, value);
  for (int64_t i = 0; i < count; i++) to[i] = values[i];
}

// Store a row of a panel.
inline void put(const Vec (&values)[2], float* to, int64_t width) {
  put(to, values[0], width);
  put(to + WIDTH, values[1], width - WIDTH);
}

// Copy columns of a matrix into a panel, and add their sums over the rows to `sums`.
inline void pack(float* panel, float* sums, const float* from, int64_t rows, int64_t stride, int64_t width) {
  Vec total[2] = {load(sums), load(sums + WIDTH)};
  for (; rows > 0; rows--, panel += COLUMNS, from += stride) {
    Vec values[2];
    get(values, from, width);
    put(values, panel, COLUMNS);
    for (int c = 0; c < 2; c++) total[c] += values[c];
  }
  put(total, sums, COLUMNS);
}

// Add to the sums of a tile whose left rows are anywhere: sum[r][c] += Σ_k a[r][offset(k)] · b[(k · C + c) · WIDTH …]
template <int R, int C, class Offset>
inline __attribute__((always_inline)) void multiply(Vec (&sum)[R][C], const float* const (&a)[R], Offset offset,
                                                    const float* b, int64_t depth) {
  for (int64_t k = 0; k < depth; k++, b += C * WIDTH) {
    const int64_t at = offset(k);
    Vec right[C];
#pragma GCC unroll 2
    for (int c = 0; c < C; c++) right[c] = load(b + c * WIDTH);
#pragma GCC unroll 16
    for (int r = 0; r < R; r++) {
      const Vec left = a[r][at] - Vec{};
#pragma GCC unroll 2
      for (int c = 0; c < C; c++) sum[r][c] += left * right[c];
    }
  }
}

constexpr int64_t LINE = 16;  // floats of a cache line

// Memory that is needed soon. It is prefetched in parts during other work.
struct Prefetch {
  const float* data;
  int64_t size;
  void prefetch(int64_t part, int64_t parts) const {
    for (int64_t i = size * part / parts / LINE; i < size * (part + 1) / parts / LINE; i++)
      __builtin_prefetch(data + i * LINE, 0, 2);
  }
};

}  // namespace smrl
