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

// out = left · right, of up to ROWS rows and COLUMNS columns; rows of the right side, which has vectors for all columns,
// lie `stride` apart.
template <bool BY_COLUMNS>
void tile(int64_t rows, const Left& left, const float* right, int64_t stride, int64_t depth, const Output& out);

// The right side of a product, (depth × width), in panels of COLUMNS columns. Of a matrix as it is, the last columns lie
// apart and are padded where they fill no panel, so that no load goes beyond its end.
struct Right {
  const float* data;
  int64_t stride, width;
  int64_t step = 1;  // floats from one panel to the next, over COLUMNS
  const float* rest = nullptr;
};

// out (rows × width) = left (rows × depth) · right, for up to ROWS rows.
template <bool BY_COLUMNS>
inline void strip(int64_t rows, const Left& left, const Right& right, int64_t depth, Output out) {
  for (int64_t j = 0; j < right.width; j += COLUMNS) {
    out.width = std::min<int64_t>(COLUMNS, right.width - j);
    const bool is_apart = right.rest && out.width < COLUMNS;
    tile<BY_COLUMNS>(rows, left, is_apart ? right.rest : right.data + j * right.step,
                     is_apart ? padded(out.width) : right.stride, depth, out);
    out.data += COLUMNS;
    out.shift += COLUMNS;
    if (out.start) out.start += COLUMNS;
  }
}

// Rows of a matrix, to a panel that is `span` wide; missing columns are zero.
void pack(float* panel, const float* matrix, int64_t stride, int64_t rows, int64_t width, int64_t span);

// The same from the transposed matrix, whose rows are the panel's columns; squares of 4 × 4 at a time.
void pack_transposed(float* panel, const float* matrix, int64_t stride, int64_t rows, int64_t width, int64_t span);
