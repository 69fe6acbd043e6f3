// Tiles of a matrix product: up to ROWS × COLUMNS sums in registers.
#pragma once

#include <algorithm>
#include <cstdint>

#include "simd.h"

namespace smrl {

constexpr float NO_FLOOR = -__builtin_inff();

inline int64_t divide_up(int64_t x, int64_t y) { return (x + y - 1) / y; }

// The padded width of a panel: one vector or two.
inline int64_t padded(int64_t width) { return width > WIDTH ? COLUMNS : WIDTH; }

// Where a tile writes max(start + sum, floor), or zero where the ReLU mask is not positive.
struct Output {
  float* data;
  int64_t stride;                // from row to row
  int64_t width;                 // columns to write
  const float* start = nullptr;  // biases or previous sums; null for zeros
  int64_t start_stride = 0;
  float floor = NO_FLOOR;                   // 0 for ReLU
  const float* const* relu_mask = nullptr;  // a pointer for every row
  int64_t shift = 0;                        // the first column in the rows of the mask
};

// The left side of a product, (rows × depth), stored by rows, or by columns where the template says BY_COLUMNS.
struct Left {
  const float* data;
  int64_t stride;
};

// Load `width` floats into C vectors; the rest is zero.
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

// out = left · right, for up to ROWS rows and COLUMNS columns. The rows of the right side are `stride` apart and padded
// to full vectors.
template <bool BY_COLUMNS>
void tile(int64_t rows, const Left& left, const float* right, int64_t stride, int64_t depth, const Output& out);

// The right side of a product, (depth × width), in panels of COLUMNS columns. If a matrix is read in place, and its
// last columns do not fill a panel, then these are in a padded copy, so that no load reads beyond the matrix.
struct Right {
  const float* data;
  int64_t stride, width;
  int64_t step = 1;                  // floats from one panel to the next, divided by COLUMNS
  const float* remainder = nullptr;  // the copy of the last columns
};

// out (rows × width) = left (rows × depth) · right, for up to ROWS rows.
template <bool BY_COLUMNS>
inline void strip(int64_t rows, const Left& left, const Right& right, int64_t depth, Output out) {
  for (int64_t j = 0; j < right.width; j += COLUMNS) {
    out.width = std::min<int64_t>(COLUMNS, right.width - j);
    const bool is_copy = right.remainder && out.width < COLUMNS;
    tile<BY_COLUMNS>(rows, left, is_copy ? right.remainder : right.data + j * right.step,
                     is_copy ? padded(out.width) : right.stride, depth, out);
    out.data += COLUMNS;
    out.shift += COLUMNS;
    if (out.start) out.start += COLUMNS;
  }
}

// Copy rows of a matrix to a panel that is `span` wide; missing columns are zero.
void pack(float* panel, const float* matrix, int64_t stride, int64_t rows, int64_t width, int64_t span);

// Copy from the transposed matrix, whose rows are the panel's columns, in squares of 4 × 4.
void pack_transposed(float* panel, const float* matrix, int64_t stride, int64_t rows, int64_t width, int64_t span);

}  // namespace smrl
