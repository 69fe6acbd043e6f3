#include "gemm.h"

#include <vector>

#include "pool.h"

namespace smrl {
namespace {

constexpr int64_t DEPTH = 256;  // rows of a panel, which then takes at most the first-level cache
enum Slot { PANEL, PARTIAL };

// out (rows × width) = left (rows × depth) · right; `fill` packs a part of the right side into a panel.
//
// A task computes some rows of some panels, such that what it reads repeatedly fits the caches. It takes all rows of
// one panel, or of several shallow panels. If there are only a few deep panels, it takes some rows of all of them.
template <class Fill>
void product(int64_t rows, int64_t depth, const float* left, const Output& all, const float* relu_mask, Fill fill) {
  const int64_t panels = divide_up(all.width, COLUMNS);
  const bool is_deep = depth > 4 * DEPTH && panels <= 8;
  const int64_t chunk = is_deep ? panels : std::clamp<int64_t>(8 * DEPTH / depth, 1, std::max<int64_t>(1, panels / 8));
  const int64_t block = is_deep ? (rows / 4 / ROWS + 1) * ROWS : rows, blocks = divide_up(rows, block);
  parallel(divide_up(panels, chunk) * blocks, [&](int64_t index) {
    const int64_t first = index / blocks * chunk, count = std::min(chunk, panels - first);
    const int64_t top = index % blocks * block, height = std::min(block, rows - top);
    float* packed = scratch(PANEL, count * DEPTH * COLUMNS);
    float* partial = scratch(PARTIAL, count * (block + ROWS) * COLUMNS);
    for (int64_t k = 0; k < depth; k += DEPTH) {
      const int64_t part = std::min(DEPTH, depth - k);
      for (int64_t i = 0; i < count; i++) {
        const int64_t j = (first + i) * COLUMNS, width = std::min<int64_t>(COLUMNS, all.width - j);
        fill(packed + i * DEPTH * COLUMNS, k, j, part, width, padded(width));
      }
      for (int64_t r = 0; r < height; r += ROWS) {
        const int64_t tall = std::min<int64_t>(ROWS, height - r);
        const float* masks[ROWS];
        for (int64_t i = 0; relu_mask && i < tall; i++) masks[i] = relu_mask + (top + r + i) * all.width;
        for (int64_t i = 0; i < count; i++) {
          const int64_t j = (first + i) * COLUMNS, width = std::min<int64_t>(COLUMNS, all.width - j);
          const int64_t span = padded(width);
          float* sums = partial + (i * block + r) * COLUMNS;
          Output out = {sums, span, span};
          if (k + part == depth) {  // the last part
            out = {all.data + (top + r) * all.stride + j, all.stride, width};
            out.floor = all.floor;
            if (relu_mask) out.relu_mask = masks, out.shift = j;
          }
          float starts[ROWS * COLUMNS];  // of the last panel, which they need not fill
          if (k > 0) {
            out.start = sums, out.start_stride = span;
          } else if (all.start) {
            out.start = all.start + (top + r) * all.start_stride + j, out.start_stride = all.start_stride;
            if (out.width > width) {
              const int64_t count = all.start_stride ? tall : 1, stride = all.start_stride ? span : 0;
              pack(starts, out.start, all.start_stride, count, width, span);
              out.start = starts, out.start_stride = stride;
            }
          }
          tile<false>(tall, {left + (top + r) * depth + k, depth}, packed + i * DEPTH * COLUMNS, span, part, out);
        }
      }
    }
  });
}

}  // namespace

void wide_layer(int64_t rows, const float* x, Matrix weights, const Output& out) {
  const int64_t columns = weights.columns;
  product(rows, weights.rows, x, out, nullptr,
          [&](float* panel, int64_t k, int64_t j, int64_t depth, int64_t width, int64_t span) {
            pack(panel, weights.data + k * columns + j, columns, depth, width, span);
          });
}

void wide_layer_input_gradient(int64_t rows, const float* gradient, Matrix weights, const float* relu_mask,
                               float* result) {
  const int64_t in = weights.rows, out = weights.columns;
  product(rows, out, gradient, {result, in, in}, relu_mask,
          [&](float* panel, int64_t k, int64_t j, int64_t depth, int64_t width, int64_t span) {
            pack_transposed(panel, weights.data + j * out + k, out, depth, width, span);
          });
}

void single_output(int64_t rows, const float* x, const float* weights, float bias, float* y, int64_t in) {
  for (int64_t i = 0; i < rows; i++, x += in) {
    Vec sum[4] = {};
    int64_t k = 0;
    for (; k + 4 * WIDTH <= in; k += 4 * WIDTH) {
      for (int c = 0; c < 4; c++) sum[c] += load(x + k + c * WIDTH) * load(weights + k + c * WIDTH);
    }
    sum[0] = (sum[0] + sum[1]) + (sum[2] + sum[3]);
    float total = bias;
    for (int c = 0; c < WIDTH; c++) total += sum[0][c];
    for (; k < in; k++) total += x[k] * weights[k];
    y[i] = total;
  }
}

void single_output_input_gradient(int64_t rows, const float* gradient, const float* weights,
                                  const float* const* relu_mask, float* result, int64_t in) {
  for (int64_t i = 0; i < rows; i++, result += in) {
    int64_t k = 0;
    for (; k + WIDTH <= in; k += WIDTH) {
      const Vec value = gradient[i] * load(weights + k);
      store(result + k, relu_mask ? (load(relu_mask[i] + k) > 0 ? value : Vec{}) : value);
    }
    for (; k < in; k++) result[k] = !relu_mask || relu_mask[i][k] > 0 ? gradient[i] * weights[k] : 0;
  }
}

}  // namespace smrl
