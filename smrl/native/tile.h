// Tiles of a matrix product: up to ROWS × COLUMNS sums in registers, and what becomes of them.
#pragma once

#include <algorithm>
#include <cstdint>

#include "simd.h"

constexpr float NO_LEAST = -__builtin_inff();

inline int64_t divide_up(int64_t x, int64_t y) { return (x + y - 1) / y; }
inline int64_t padded(int64_t width) { return width > WIDTH ? COLUMNS : WIDTH; }  // of a panel with so many columns

// Where the sums of a tile go: max(start + sum, least), and zero where the mask is not positive.
struct Output {
  float* data;
  int64_t stride;                      // from row to row
  int64_t width;                       // columns that count
  const float* start = nullptr;        // biases, or sums so far; zero by default
  int64_t start_stride = 0;
  float least = NO_LEAST;              // 0 for ReLU
  const float* const* mask = nullptr;  // its rows
  int64_t shift = 0;                   // of the columns in these rows
};

// Rows of the left side, (rows × depth): adjacent floats are of one row, or, by columns, of one column.
struct Left {
  const float* data;
  int64_t stride;
};

// `width` floats from there, as whole vectors; what is missing is zero.
template <int C>
inline __attribute__((always_inline)) void get(Vec (&values)[C], const float* from, int64_t width) {
  if (width == C * WIDTH) {
#pragma GCC unroll 2
    for (int c = 0; c < C; c++) values[c] = load(from + c * WIDTH);
  } else {
    float row[C * WIDTH] = {};
    for (int64_t i = 0; i < width; i++) row[i] = from[i];
#pragma GCC unroll 2
    for (int c = 0; c < C; c++) values[c] = load(row + c * WIDTH);
  }
}

// out = left · right, of R rows and C vectors; rows of the right side, (depth × C · WIDTH), lie `stride` apart.
template <int R, int C, bool BY_COLUMNS>
void tile(const Left& left, const float* right, int64_t stride, int64_t depth, const Output& out) {
  Vec sum[R][C] = {};
  if (out.start) {
#pragma GCC unroll 16
    for (int r = 0; r < R; r++) get(sum[r], out.start + r * out.start_stride, out.width);
  }
  for (int64_t k = 0; k < depth; k++, right += stride) {
    Vec factor[C];
#pragma GCC unroll 2
    for (int c = 0; c < C; c++) factor[c] = load(right + c * WIDTH);
    const float* column = BY_COLUMNS ? left.data + k * left.stride : left.data + k;
#pragma GCC unroll 16
    for (int r = 0; r < R; r++) {
      const Vec one = column[BY_COLUMNS ? r : r * left.stride] - Vec{};
#pragma GCC unroll 2
      for (int c = 0; c < C; c++) sum[r][c] += one * factor[c];
    }
  }
#pragma GCC unroll 16
  for (int r = 0; r < R; r++) {
    Vec value[C], mask[C];
#pragma GCC unroll 2
    for (int c = 0; c < C; c++) value[c] = larger(sum[r][c], Vec{} + out.least);
    if (out.mask) {
      get(mask, out.mask[r] + out.shift, out.width);
#pragma GCC unroll 2
      for (int c = 0; c < C; c++) value[c] = mask[c] > 0 ? value[c] : Vec{};
    }
    float* to = out.data + r * out.stride;
    if (out.width == C * WIDTH) {
#pragma GCC unroll 2
      for (int c = 0; c < C; c++) store(to + c * WIDTH, value[c]);
    } else {
      float row[C * WIDTH];
#pragma GCC unroll 2
      for (int c = 0; c < C; c++) store(row + c * WIDTH, value[c]);
      std::copy_n(row, out.width, to);
    }
  }
}

// The same with the number of rows and columns known at run time only.
template <bool BY_COLUMNS, int R = ROWS>
inline void tile_of(int64_t rows, const Left& left, const float* right, int64_t stride, int64_t depth,
                    const Output& out) {
  if (rows == R)
    return (out.width > WIDTH ? tile<R, 2, BY_COLUMNS> : tile<R, 1, BY_COLUMNS>)(left, right, stride, depth, out);
  if constexpr (R > 1) tile_of<BY_COLUMNS, R - 1>(rows, left, right, stride, depth, out);
}

// The right side of a product, (depth × width), in panels of COLUMNS columns. Of a matrix as it is, the last columns lie
// apart and are padded where they fill no panel, so that no load goes beyond its end.
struct Right {
  const float* data;
  int64_t stride, width;
  int64_t step = 1;  // between the first floats of neighbouring columns that begin panels, per column
  const float* rest = nullptr;
};

// out (rows × width) = left (rows × depth) · right, for up to ROWS rows.
template <bool BY_COLUMNS>
inline void strip(int64_t rows, const Left& left, const Right& right, int64_t depth, Output out) {
  for (int64_t j = 0; j < right.width; j += COLUMNS) {
    out.width = std::min<int64_t>(COLUMNS, right.width - j);
    const bool is_apart = right.rest && out.width < COLUMNS;
    tile_of<BY_COLUMNS>(rows, left, is_apart ? right.rest : right.data + j * right.step, is_apart ? padded(out.width) : right.stride,
                        depth, out);
    out.data += COLUMNS;
    out.shift += COLUMNS;
    if (out.start) out.start += COLUMNS;
  }
}

// Rows of a matrix, to a panel that is `span` wide; missing columns are zero.
inline void pack(float* panel, const float* matrix, int64_t stride, int64_t rows, int64_t width, int64_t span) {
  for (int64_t i = 0; i < rows; i++, panel += span, matrix += stride) {
    if (width == COLUMNS) {
      store(panel, load(matrix));
      store(panel + WIDTH, load(matrix + WIDTH));
    } else {
      for (int64_t j = 0; j < span; j++) panel[j] = j < width ? matrix[j] : 0;
    }
  }
}

typedef float Four __attribute__((vector_size(16), aligned(4), may_alias));

// The same from the transposed matrix, whose rows are the panel's columns; squares of 4 × 4 at a time.
inline void pack_transposed(float* panel, const float* matrix, int64_t stride, int64_t rows, int64_t width,
                            int64_t span) {
  const auto four = [](const float* from) { return *reinterpret_cast<const Four*>(from); };
  for (int64_t j = 0; j < span; j += 4) {
    const float* from = matrix + j * stride;
    int64_t i = 0;
    for (; j + 4 <= width && i + 4 <= rows; i += 4) {
      const Four a = four(from + i), b = four(from + stride + i), c = four(from + 2 * stride + i),
                 d = four(from + 3 * stride + i);
      const Four ab = __builtin_shufflevector(a, b, 0, 4, 1, 5), cd = __builtin_shufflevector(c, d, 0, 4, 1, 5);
      const Four ab2 = __builtin_shufflevector(a, b, 2, 6, 3, 7), cd2 = __builtin_shufflevector(c, d, 2, 6, 3, 7);
      const Four square[4] = {__builtin_shufflevector(ab, cd, 0, 1, 4, 5), __builtin_shufflevector(ab, cd, 2, 3, 6, 7),
                              __builtin_shufflevector(ab2, cd2, 0, 1, 4, 5), __builtin_shufflevector(ab2, cd2, 2, 3, 6, 7)};
      for (int r = 0; r < 4; r++) *reinterpret_cast<Four*>(panel + (i + r) * span + j) = square[r];
    }
    for (; i < rows; i++) {
      for (int64_t c = 0; c < 4; c++) panel[i * span + j + c] = j + c < width ? from[c * stride + i] : 0;
    }
  }
}
