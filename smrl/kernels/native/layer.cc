#include "layer.h"

#include <vector>

#include "pool.h"

namespace {

constexpr int64_t DEPTH = 256;  // of a panel, which then fits the first-level cache or half of it
enum Slot { PANEL, PARTIAL };

// out (rows × width) = left (rows × depth) · right; `fill` is pack or pack_transposed, with the right side.
//
// A task computes some rows of some panels, so that what it reads again and again fits the caches: all rows of a panel,
// or of many where they are shallow, or some rows of all panels where these are few and deep.
template <class Fill>
void product(int64_t rows, int64_t depth, const float* left, const Output& all, const float* mask, Fill fill) {
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
        for (int64_t i = 0; mask && i < tall; i++) masks[i] = mask + (top + r + i) * all.width;
        for (int64_t i = 0; i < count; i++) {
          const int64_t j = (first + i) * COLUMNS, width = std::min<int64_t>(COLUMNS, all.width - j), span = padded(width);
          float* sums = partial + (i * block + r) * COLUMNS;
          Output out = {sums, span, span};
          if (k + part == depth) {  // the last part
            out = {all.data + (top + r) * all.stride + j, all.stride, width};
            out.least = all.least;
            if (mask) out.mask = masks, out.shift = j;
          }
          if (k > 0)
            out.start = sums, out.start_stride = span;
          else if (all.start)
            out.start = all.start + j;
          tile<false>(tall, {left + (top + r) * depth + k, depth}, packed + i * DEPTH * COLUMNS, span, part, out);
        }
      }
    }
  });
}

}  // namespace

void wide_layer(int64_t rows, const float* x, Matrix weights, const float* bias, float least, float* y) {
  const int64_t out = weights.columns;
  product(rows, weights.rows, x, {y, out, out, bias, 0, least}, nullptr,
          [&](float* panel, int64_t k, int64_t j, int64_t depth, int64_t width, int64_t span) {
            pack(panel, weights.data + k * out + j, out, depth, width, span);
          });
}

void wide_layer_inputs(int64_t rows, const float* gradient, Matrix weights, const float* mask, float* result) {
  const int64_t in = weights.rows, out = weights.columns;
  product(rows, out, gradient, {result, in, in}, mask,
          [&](float* panel, int64_t k, int64_t j, int64_t depth, int64_t width, int64_t span) {
            pack_transposed(panel, weights.data + j * out + k, out, depth, width, span);
          });
}

void single(int64_t rows, const float* x, const float* weights, float bias, float* y, int64_t in) {
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

void single_inputs(int64_t rows, const float* gradient, const float* weights, const float* const* mask, float* result,
                   int64_t in) {
  for (int64_t i = 0; i < rows; i++, result += in) {
    int64_t k = 0;
    for (; k + WIDTH <= in; k += WIDTH) {
      const Vec value = gradient[i] * load(weights + k);
      store(result + k, mask ? (load(mask[i] + k) > 0 ? value : Vec{}) : value);
    }
    for (; k < in; k++) result[k] = !mask || mask[i][k] > 0 ? gradient[i] * weights[k] : 0;
  }
}
