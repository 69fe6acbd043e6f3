#include "tile.h"

namespace smrl {
namespace {

// out = left · right, for R rows and C vectors. The rows of the right side, (depth × C · WIDTH), are `stride` apart.
template <int R, int C, bool BY_COLUMNS>
void sized_tile(const Left& left, const float* right, int64_t stride, int64_t depth, const Output& out) {
  constexpr int GROUPS = (R + 3) / 4;
  Vec sum[R][C] = {};
  if (out.start) {
#pragma GCC unroll 16
    for (int r = 0; r < R; r++) get(sum[r], out.start + r * out.start_stride, out.width);
  }
  const float* rows[GROUPS];  // every fourth row: there are not enough registers for a pointer to each
#pragma GCC unroll 4
  for (int i = 0; i < GROUPS; i++) rows[i] = left.data + 4 * i * (BY_COLUMNS ? 1 : left.stride);
  for (int64_t k = 0; k < depth; k++, right += stride) {
    Vec factor[C];
#pragma GCC unroll 2
    for (int c = 0; c < C; c++) factor[c] = load(right + c * WIDTH);
#pragma GCC unroll 16
    for (int r = 0; r < R; r++) {
      const Vec one = rows[r / 4][r % 4 * (BY_COLUMNS ? 1 : left.stride)] - Vec{};
#pragma GCC unroll 2
      for (int c = 0; c < C; c++) sum[r][c] += one * factor[c];
    }
#pragma GCC unroll 4
    for (int i = 0; i < GROUPS; i++) rows[i] += BY_COLUMNS ? left.stride : 1;
  }
#pragma GCC unroll 16
  for (int r = 0; r < R; r++) {
    Vec value[C], mask[C];
#pragma GCC unroll 2
    for (int c = 0; c < C; c++) value[c] = larger(sum[r][c], Vec{} + out.floor);
    if (out.relu_mask) {
      get(mask, out.relu_mask[r] + out.shift, out.width);
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

// Call the template for a number of rows that is known at run time only.
template <bool BY_COLUMNS, int R = ROWS>
void choose(int64_t rows, const Left& left, const float* right, int64_t stride, int64_t depth, const Output& out) {
  if (rows == R)
    return (out.width > WIDTH ? sized_tile<R, 2, BY_COLUMNS> : sized_tile<R, 1, BY_COLUMNS>)(left, right, stride, depth,
                                                                                             out);
  if constexpr (R > 1) choose<BY_COLUMNS, R - 1>(rows, left, right, stride, depth, out);
}

typedef float Four __attribute__((vector_size(16), aligned(4), may_alias));

}  // namespace

template <bool BY_COLUMNS>
void tile(int64_t rows, const Left& left, const float* right, int64_t stride, int64_t depth, const Output& out) {
  choose<BY_COLUMNS>(rows, left, right, stride, depth, out);
}

template void tile<false>(int64_t, const Left&, const float*, int64_t, int64_t, const Output&);
template void tile<true>(int64_t, const Left&, const float*, int64_t, int64_t, const Output&);

void pack(float* panel, const float* matrix, int64_t stride, int64_t rows, int64_t width, int64_t span) {
  for (int64_t i = 0; i < rows; i++, panel += span, matrix += stride) {
    if (width == COLUMNS) {
      store(panel, load(matrix));
      store(panel + WIDTH, load(matrix + WIDTH));
    } else {
      for (int64_t j = 0; j < span; j++) panel[j] = j < width ? matrix[j] : 0;
    }
  }
}

void pack_transposed(float* panel, const float* matrix, int64_t stride, int64_t rows, int64_t width, int64_t span) {
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
                              __builtin_shufflevector(ab2, cd2, 0, 1, 4, 5),
                              __builtin_shufflevector(ab2, cd2, 2, 3, 6, 7)};
      for (int r = 0; r < 4; r++) *reinterpret_cast<Four*>(panel + (i + r) * span + j) = square[r];
    }
    for (; i < rows; i++) {
      for (int64_t c = 0; c < 4; c++) panel[i * span + j + c] = j + c < width ? from[c * stride + i] : 0;
    }
  }
}

}  // namespace smrl
