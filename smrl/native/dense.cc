// A dense layer y = act(x W + b), act being ReLU or nothing, and its gradients.
//
// Every output is computed by one task, in an order that does not depend on the number of threads; neither do its bits.
#include <algorithm>
#include <numeric>
#include <vector>

#include "call.h"
#include "pool.h"
#include "simd.h"

namespace {

constexpr int64_t DEPTH = 256;       // of a panel, which then takes half of the first-level cache
constexpr float NO_LEAST = -__builtin_inff();
enum Slot { PANEL, SHARED, PARTIAL };

// What becomes of the sums of a panel: max(sum + bias, least), and zero where the mask is not positive.
struct Output {
  float* data;
  int64_t stride;  // from row to row, of the mask too
  int64_t width;   // columns that count
  float least = NO_LEAST;
  const float* mask = nullptr;
  float bias[COLUMNS] = {};

  Output from(int64_t row) const {
    Output rest = *this;
    rest.data += row * stride;
    if (mask) rest.mask += row * stride;
    return rest;
  }
};

// sums (R × C · WIDTH) = or += left · panel (depth × C · WIDTH). Rows of the left side lie `row` apart; of a packed one,
// they are adjacent.
template <int R, int C, bool IS_PACKED>
void tile(float* sums, bool is_first, const float* left, int64_t row, const float* panel, int64_t depth) {
  Vec sum[R][C] = {};
  if (!is_first) {
#pragma GCC unroll 32
    for (int i = 0; i < R * C; i++) sum[i / C][i % C] = load(sums + i * WIDTH);
  }
  multiply(sum, left, IS_PACKED ? 1 : row, IS_PACKED ? ROWS : 1, panel, depth);
#pragma GCC unroll 32
  for (int i = 0; i < R * C; i++) store(sums + i * WIDTH, sum[i / C][i % C]);
}

// The same with the number of rows and columns known at run time only.
template <bool IS_PACKED, int R = ROWS>
void tile_of(int64_t rows, int64_t span, float* sums, bool is_first, const float* left, int64_t row, const float* panel,
             int64_t depth) {
  if (rows == R)
    return (span > WIDTH ? tile<R, 2, IS_PACKED> : tile<R, 1, IS_PACKED>)(sums, is_first, left, row, panel, depth);
  if constexpr (R > 1) tile_of<IS_PACKED, R - 1>(rows, span, sums, is_first, left, row, panel, depth);
}

// Write the output of a tile with these sums.
void finish(const float* sums, int64_t rows, int64_t span, const Output& out) {
  for (int64_t r = 0; r < rows; r++, sums += span) {
    float* to = out.data + r * out.stride;
    const float* mask = out.mask ? out.mask + r * out.stride : nullptr;
    if (out.width == COLUMNS) {
#pragma GCC unroll 2
      for (int c = 0; c < COLUMNS; c += WIDTH) {
        const Vec value = larger(load(sums + c) + load(out.bias + c), Vec{} + out.least);
        store(to + c, mask ? (load(mask + c) > 0 ? value : Vec{}) : value);
      }
    } else {
      for (int64_t c = 0; c < out.width; c++)
        to[c] = mask && !(mask[c] > 0) ? 0 : std::max(sums[c] + out.bias[c], out.least);
    }
  }
}

// out (rows × width) = act(left (rows × depth) · right); `fill` is pack or pack_transposed, with the right side.
//
// A task computes some rows of some panels, so that what it reads again and again fits the caches: all rows of a panel,
// or of many where they are shallow, or some rows of all panels where these are few and deep.
template <class Fill>
void product(int64_t rows, int64_t depth, const float* left, const Output& all, const float* bias, Fill fill) {
  const int64_t panels = (all.width + COLUMNS - 1) / COLUMNS;
  const bool is_deep = depth > 4 * DEPTH && panels <= 8;
  const int64_t chunk = is_deep ? panels : std::clamp<int64_t>(8 * DEPTH / depth, 1, std::max<int64_t>(1, panels / 8));
  const int64_t block = is_deep ? (rows / 4 / ROWS + 1) * ROWS : rows, blocks = (rows + block - 1) / block;
  parallel((panels + chunk - 1) / chunk * blocks, [&](int64_t index) {
    const int64_t first = index / blocks * chunk, count = std::min(chunk, panels - first);
    const int64_t top = index % blocks * block, height = std::min(block, rows - top);
    float *packed = scratch(PANEL, count * DEPTH * COLUMNS), *partial = scratch(PARTIAL, count * (block + ROWS) * COLUMNS);
    std::vector<Output> outs;
    for (int64_t j = first * COLUMNS; j < std::min((first + count) * COLUMNS, all.width); j += COLUMNS) {
      outs.push_back({all.data + j, all.stride, std::min<int64_t>(COLUMNS, all.width - j), all.least});
      if (all.mask) outs.back().mask = all.mask + j;
      if (bias) std::copy_n(bias + j, outs.back().width, outs.back().bias);
    }
    for (int64_t k = 0; k < depth; k += DEPTH) {
      const int64_t part = std::min(DEPTH, depth - k);
      for (int64_t i = 0; i < count; i++) {
        const int64_t width = outs[i].width;
        fill(packed + i * DEPTH * COLUMNS, k, (first + i) * COLUMNS, part, width, width > WIDTH ? COLUMNS : WIDTH);
      }
      for (int64_t r = 0; r < height; r += ROWS) {
        const int64_t tall = std::min<int64_t>(ROWS, height - r);
        for (int64_t i = 0; i < count; i++) {
          const int64_t span = outs[i].width > WIDTH ? COLUMNS : WIDTH;
          float* sums = partial + (i * block + (depth > DEPTH ? r : 0)) * COLUMNS;
          tile_of<false>(tall, span, sums, k == 0, left + (top + r) * depth + k, depth, packed + i * DEPTH * COLUMNS, part);
          if (k + part == depth) finish(sums, tall, span, outs[i].from(top + r));
        }
      }
    }
  });
}

// Rows of a matrix, to a panel that is `span` wide; missing columns are zero.
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

typedef float Four __attribute__((vector_size(16), aligned(4), may_alias));

// The same from the transposed matrix, whose rows are the panel's columns; squares of 4 × 4 at a time.
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
                              __builtin_shufflevector(ab2, cd2, 0, 1, 4, 5), __builtin_shufflevector(ab2, cd2, 2, 3, 6, 7)};
      for (int r = 0; r < 4; r++) *reinterpret_cast<Four*>(panel + (i + r) * span + j) = square[r];
    }
    for (; i < rows; i++) {
      for (int64_t c = 0; c < 4; c++) panel[i * span + j + c] = j + c < width ? from[c * stride + i] : 0;
    }
  }
}

// Call body(first, end) for ranges of at most `most` of `count`, in parallel.
template <class Body>
void ranges(int64_t count, int64_t most, Body body) {
  parallel((count + most - 1) / most, [&](int64_t i) { body(i * most, std::min((i + 1) * most, count)); });
}

// The three products of a layer with a single output, which are too narrow for tiles.
void single(const float* x, const float* weights, float bias, float least, float* y, int64_t batch, int64_t in) {
  ranges(batch, 64, [&](int64_t first, int64_t end) {
    for (int64_t i = first; i < end; i++) {
      const float* row = x + i * in;
      Vec sum[4] = {};
      int64_t k = 0;
      for (; k + 4 * WIDTH <= in; k += 4 * WIDTH) {
        for (int c = 0; c < 4; c++) sum[c] += load(row + k + c * WIDTH) * load(weights + k + c * WIDTH);
      }
      sum[0] = (sum[0] + sum[1]) + (sum[2] + sum[3]);
      float total = bias;
      for (int c = 0; c < WIDTH; c++) total += sum[0][c];
      for (; k < in; k++) total += row[k] * weights[k];
      y[i] = std::max(total, least);
    }
  });
}

void single_inputs(const float* gradient, const float* weights, const float* mask, float* result, int64_t batch,
                   int64_t in) {
  ranges(batch, 64, [&](int64_t first, int64_t end) {
    for (int64_t i = first; i < end; i++) {
      float* row = result + i * in;
      for (int64_t k = 0; k < in; k++) row[k] = gradient[i] * weights[k];
      if (!mask) continue;
      for (int64_t k = 0; k < in; k++) row[k] = mask[i * in + k] > 0 ? row[k] : 0;
    }
  });
}

void single_weights(const float* x, const float* gradient, float* result, int64_t batch, int64_t in) {
  ranges(in, 4 * COLUMNS, [&](int64_t first, int64_t end) {
    float sum[4 * COLUMNS] = {};
    for (int64_t i = 0; i < batch; i++) {
      const float* row = x + i * in + first;
      for (int64_t k = 0; k < end - first; k++) sum[k] += row[k] * gradient[i];
    }
    std::copy_n(sum, end - first, result + first);
  });
}

}  // namespace

// x (batch, in), W (in, out), b (out) → y (batch, out)
KERNEL(smrl_dense) {
  const Array x = call.argument(0), weights = call.argument(1), bias = call.argument(2), y = call.result(0);
  const int64_t batch = x.dims[0], in = x.dims[1], out = weights.dims[1];
  const float least = call.attribute<int64_t>("relu") ? 0 : NO_LEAST;
  if (out == 1) return single(x.data, weights.data, bias.data[0], least, y.data, batch, in);
  product(batch, in, x.data, {y.data, out, out, least}, bias.data,
          [&](float* panel, int64_t k, int64_t j, int64_t depth, int64_t width, int64_t span) {
            pack(panel, weights.data + k * out + j, out, depth, width, span);
          });
}

// ∂y before the activation (batch, out), W (in, out), x (batch, in) → ∂x (batch, in).
// With relu, x is the output of ReLU in the layer below, and the result is the gradient before it.
KERNEL(smrl_dense_inputs) {
  const Array gradient = call.argument(0), weights = call.argument(1), x = call.argument(2), result = call.result(0);
  const int64_t batch = gradient.dims[0], out = gradient.dims[1], in = weights.dims[0];
  const float* mask = call.attribute<int64_t>("relu") ? x.data : nullptr;
  if (out == 1) return single_inputs(gradient.data, weights.data, mask, result.data, batch, in);
  product(batch, out, gradient.data, {result.data, in, in, NO_LEAST, mask}, nullptr,
          [&](float* panel, int64_t k, int64_t j, int64_t depth, int64_t width, int64_t span) {
            pack_transposed(panel, weights.data + j * out + k, out, depth, width, span);
          });
}

// x (batch, in), ∂y before the activation (batch, out) → ∂W (in, out), ∂b (out)
KERNEL(smrl_dense_weights) {
  const Array x = call.argument(0), gradient = call.argument(1), weights = call.result(0), bias = call.result(1);
  const int64_t batch = x.dims[0], in = x.dims[1], out = gradient.dims[1];
  if (out == 1) {
    bias.data[0] = std::accumulate(gradient.data, gradient.data + batch, 0.0f);
    return single_weights(x.data, gradient.data, weights.data, batch, in);
  }
  float* right = scratch(SHARED, (out + COLUMNS) * batch);  // ∂y in panels
  parallel((out + COLUMNS - 1) / COLUMNS, [&](int64_t index) {
    const int64_t j = index * COLUMNS, width = std::min<int64_t>(COLUMNS, out - j), span = width > WIDTH ? COLUMNS : WIDTH;
    float* panel = right + j * batch;
    pack(panel, gradient.data + j, out, batch, width, span);
    Vec sum[2] = {};
    for (int64_t i = 0; i < batch; i++, panel += span) {
      sum[0] += load(panel);
      if (span > WIDTH) sum[1] += load(panel + WIDTH);
    }
    for (int64_t c = 0; c < width; c++) bias.data[j + c] = sum[c / WIDTH][c % WIDTH];
  });
  const int64_t block = (in < 4096 ? 4 : 16) * ROWS;  // inputs of a task: in long rows, many lie on the same page
  ranges(in, block, [&](int64_t first, int64_t end) {
    float* left = scratch(PANEL, batch * block);  // columns of x: ROWS of them sample by sample, then the next
    for (int64_t at = first; at < end; at += ROWS) {
      float* to = left + (at - first) * batch;
      const int64_t rows = std::min<int64_t>(ROWS, end - at);
      for (int64_t i = 0; i < batch; i++) {
        const float* from = x.data + i * in + at;
        if (rows == ROWS) {
          for (int r = 0; r < ROWS; r++) to[i * ROWS + r] = from[r];
        } else {
          for (int64_t r = 0; r < rows; r++) to[i * ROWS + r] = from[r];
        }
      }
    }
    float* sums = scratch(PARTIAL, ROWS * COLUMNS);
    for (int64_t j = 0; j < out; j += COLUMNS) {
      const int64_t width = std::min<int64_t>(COLUMNS, out - j), span = width > WIDTH ? COLUMNS : WIDTH;
      for (int64_t at = first; at < end; at += ROWS) {
        const int64_t rows = std::min<int64_t>(ROWS, end - at);
        tile_of<true>(rows, span, sums, true, left + (at - first) * batch, 1, right + j * batch, batch);
        finish(sums, rows, span, {weights.data + at * out + j, out, width});
      }
    }
  });
}
