// A convolution y = act(x * W + b) of images without padding, where act is ReLU or nothing, and the gradient of x.
//
// Images are (batch, height, width, channels). The inputs under one row of the kernel are adjacent in the image, so
// that tiles of pixels × filters are summed without copying. The bits do not depend on the number of threads.
#include <algorithm>
#include <vector>

#include "call.h"
#include "images.h"
#include "pool.h"
#include "winograd.h"

namespace smrl {
namespace {

constexpr int64_t CHUNK = 40 * ROWS;  // pixels that are computed for all filters at a time
enum Slot { SHARED };

// Distances between images, rows and columns.
struct Steps {
  int64_t image, row, column;
  int64_t at(int64_t i, int64_t y, int64_t x) const { return i * image + y * row + x * column; }
};

// A rectangle of output pixels in several images, which all see the same part of the kernel.
struct Region {
  int64_t images, rows, columns;
  const float* from;
  float* to;
  const float* relu_mask;  // laid out as the output, which is zero where the mask is not positive; or null
  Steps from_steps, to_steps;
  int64_t taps, depth;             // rows of the kernel, and floats in each
  int64_t image_step, panel_step;  // from one of these rows to the next
};

// Weights and biases in panels of COLUMNS filters.
struct Panels {
  const float *weights, *bias;
  int64_t size;  // floats of a panel's weights
  int64_t filters;
  float floor;  // 0 for ReLU
};

// Compute the outputs of up to ROWS pixels for a panel: act(sum + bias).
__attribute__((noinline)) void tile(const Region& region, const int64_t* from, const int64_t* to, int64_t count,
                                    const Panels& panels, int64_t first) {
  const int64_t width = std::min<int64_t>(COLUMNS, panels.filters - first);
  const float* left[ROWS];  // rows beyond the last pixel repeat it
  for (int64_t r = 0; r < ROWS; r++) left[r] = region.from + from[std::min(r, count - 1)];
  Vec sum[ROWS][2];
#pragma GCC unroll 16
  for (int r = 0; r < ROWS; r++) {
    sum[r][0] = load(panels.bias + first);
    sum[r][1] = load(panels.bias + first + WIDTH);
  }
  const float* right = panels.weights + first / COLUMNS * panels.size;
  for (int64_t tap = 0; tap < region.taps; tap++)
    multiply(
        sum, left, [&](int64_t k) { return tap * region.image_step + k; }, right + tap * region.panel_step,
        region.depth);
#pragma GCC unroll 16
  for (int r = 0; r < ROWS; r++) {
    if (r >= count) break;
    Vec values[2] = {larger(sum[r][0], Vec{} + panels.floor), larger(sum[r][1], Vec{} + panels.floor)};
    if (region.relu_mask) {
      Vec relu_mask[2];
      get(relu_mask, region.relu_mask + to[r] + first, width);
      for (int c = 0; c < 2; c++) values[c] = relu_mask[c] > 0 ? values[c] : Vec{};
    }
    put(values, region.to + to[r] + first, width);
  }
}

void convolve(const Region& region, const Panels& panels) {
  int64_t from[CHUNK], to[CHUNK], image = 0, y = 0, x = 0;
  for (int64_t left = region.images * region.rows * region.columns; left > 0; left -= CHUNK) {
    const int64_t count = std::min(CHUNK, left);
    for (int64_t i = 0; i < count; i++) {
      from[i] = region.from_steps.at(image, y, x);
      to[i] = region.to_steps.at(image, y, x);
      if (++x == region.columns) {
        x = 0;
        if (++y == region.rows) y = 0, image++;
      }
    }
    const Prefetch next = {region.from + from[count - 1] + (region.taps - 1) * region.image_step,
                           count * region.from_steps.row / region.columns};
    for (int64_t first = 0; first < panels.filters; first += COLUMNS) {
      for (int64_t i = 0; i < count; i += ROWS) {
        if (first == 0 && region.columns > 1) next.prefetch(i / ROWS, divide_up(count, ROWS));
        if (region.relu_mask) {
          for (int64_t r = i + 2 * ROWS; r < std::min(i + 3 * ROWS, count); r++) {
            __builtin_prefetch(region.relu_mask + to[r] + first);
            __builtin_prefetch(region.to + to[r] + first, 1);
          }
        }
        tile(region, from + i, to + i, std::min<int64_t>(ROWS, count - i), panels, first);
      }
    }
  }
}

// A range of outputs along one axis, start … end, which all see inputs under the taps low … high.
struct Span {
  int64_t start, end, low, high;
};

// Output q sees the inputs q - (taps - 1) … q, as far as they exist.
std::vector<Span> spans(int64_t outputs, int64_t taps, int64_t inputs) {
  std::vector<Span> result;
  for (int64_t q = 0; q < outputs; q++) {
    const int64_t low = std::max<int64_t>(0, taps - 1 - q), high = std::max(low, std::min(taps, inputs + taps - 1 - q));
    if (result.empty() || result.back().low != low || result.back().high != high) result.push_back({q, q, low, high});
    result.back().end++;
  }
  return result;
}

}  // namespace

// Arguments: x (batch, height, width, channels), W (kernel, kernel, channels, filters) and b.
// Result: y (batch, rows, columns, filters).
KERNEL(smrl_conv) {
  call.require_counts(3, 1);
  const Array<float> x = call.argument(0, {ANY, ANY, ANY, ANY});
  const int64_t stride = call.integer("stride"), images = x.dims[0], width = x.dims[2], channels = x.dims[3];
  const int64_t kernel = call.argument(1, {ANY, ANY, ANY, ANY}).dims[0];
  const Array<float> weights = call.argument(1, {kernel, kernel, channels, ANY});
  const int64_t rows = side_after(x.dims[1], kernel, stride), columns = side_after(width, kernel, stride);
  const int64_t filters = weights.dims[3];
  const Array<float> bias = call.argument(2, {filters}), y = call.result(0, {images, rows, columns, filters});
  const float floor = call.integer("relu") ? 0 : NO_FLOOR;
  if (winograd::is_faster(kernel, stride, Images(x), Images(y)))
    return winograd::convolve(Images(x), 0, weights.data, false, bias.data, floor, nullptr, Images(y));
  const int64_t depth = kernel * kernel * channels, panels = divide_up(filters, COLUMNS);
  float *packed = scratch(SHARED, panels * (depth + 1) * COLUMNS), *biases = packed + panels * depth * COLUMNS;
  for (int64_t panel = 0; panel < panels; panel++) {
    const int64_t first = panel * COLUMNS, count = std::min<int64_t>(COLUMNS, filters - first);
    float unused[COLUMNS] = {};
    pack(packed + panel * depth * COLUMNS, unused, weights.data + first, depth, filters, count);
    pack(biases + first, unused, bias.data + first, 1, 0, count);
  }
  // A task is a group of small images, or if there are few images, some rows of one.
  const int64_t group = std::min(images, divide_up(512, rows * columns));
  const int64_t parts = group > 1 ? 1 : std::min(rows, divide_up(16, images)), part = divide_up(rows, parts);
  const Steps from = {x.dims[1] * width * channels, stride * width * channels, stride * channels};
  const Steps to = {rows * columns * filters, columns * filters, filters};
  parallel(divide_up(images, group) * parts, [&](int64_t task) {
    const int64_t image = task / parts * group, row = task % parts * part;
    if (row >= rows) return;
    convolve({std::min(group, images - image), std::min(part, rows - row), columns, x.data + from.at(image, row, 0),
              y.data + to.at(image, row, 0), nullptr, from, to, kernel, kernel * channels, width * channels,
              kernel * channels * COLUMNS},
             {packed, biases, depth * COLUMNS, filters, floor});
  });
}

// Arguments: ∂y (batch, rows, columns, filters), W (kernel, kernel, channels, filters) and x. Result: ∂x, shaped as x.
//
// With `relu`, x is an output of ReLU, and ∂x is zero where x is. The remainders of their coordinates modulo the stride
// divide the pixels of ∂x into stride² phases. The pixels of one phase are a convolution of ∂y with every stride-th row
// and column of the mirrored kernel.
KERNEL(smrl_conv_input_gradient) {
  call.require_counts(3, 1);
  const Array<float> x = call.argument(2, {ANY, ANY, ANY, ANY});
  const int64_t stride = call.integer("stride"), relu = call.integer("relu");
  const int64_t images = x.dims[0], height = x.dims[1], width = x.dims[2], channels = x.dims[3];
  const int64_t kernel = call.argument(1, {ANY, ANY, ANY, ANY}).dims[0];
  const Array<float> weights = call.argument(1, {kernel, kernel, channels, ANY});
  const int64_t rows = side_after(height, kernel, stride), columns = side_after(width, kernel, stride);
  const int64_t filters = weights.dims[3], size = kernel * kernel * filters * COLUMNS;
  const Array<float> gradient = call.argument(0, {images, rows, columns, filters});
  const Array<float> result = call.result(0, {images, height, width, channels});
  if (winograd::is_faster(kernel, stride, Images(gradient), Images(result)))
    return winograd::convolve(Images(gradient), kernel - 1, weights.data, true, nullptr, NO_FLOOR,
                              relu ? x.data : nullptr, Images(result));
  const int64_t panels = divide_up(channels, COLUMNS);
  float *packed = scratch(SHARED, panels * (size + COLUMNS)), *no_bias = packed + panels * size;
  std::fill_n(no_bias, panels * COLUMNS, 0.0f);
  const auto taps = [&](int64_t phase) { return phase < kernel ? divide_up(kernel - phase, stride) : 0; };
  parallel(panels, [&](int64_t panel) {  // pack the mirrored kernel of each phase
    float* to = packed + panel * size;
    const int64_t first = panel * COLUMNS, count = std::min<int64_t>(COLUMNS, channels - first);
    for (int64_t phase = 0; phase < stride * stride; phase++) {
      const int64_t top = phase / stride, left = phase % stride;
      for (int64_t i = taps(top) - 1; i >= 0; i--) {
        for (int64_t j = taps(left) - 1; j >= 0; j--, to += filters * COLUMNS) {
          const float* from =
              weights.data + (((top + i * stride) * kernel + left + j * stride) * channels + first) * filters;
          for (int64_t f = 0; f < filters; f++) {
            for (int64_t c = 0; c < COLUMNS; c++) to[f * COLUMNS + c] = c < count ? from[c * filters + f] : 0;
          }
        }
      }
    }
  });
  // Pixels near the border see less of the kernel. Tiles are filled with such pixels of several images.
  const int64_t groups = divide_up(images, ROWS);
  const Steps from = {rows * columns * filters, columns * filters, filters};
  const Steps to = {height * width * channels, stride * width * channels, stride * channels};
  parallel(groups, [&](int64_t group) {
    const int64_t image = images * group / groups, count = images * (group + 1) / groups - image;
    const float* mirrored = packed;
    for (int64_t phase = 0; phase < stride * stride; phase++) {
      const int64_t top = phase / stride, left = phase % stride, down = taps(top), across = taps(left);
      const auto xs = spans(divide_up(width - left, stride), across, columns);
      for (const Span& v : spans(divide_up(height - top, stride), down, rows)) {
        for (const Span& h : xs) {
          const int64_t start = (top * width + left) * channels + to.at(image, v.start, h.start);
          const int64_t skipped = (v.low * across + h.low) * filters * COLUMNS;
          convolve({count, v.end - v.start, h.end - h.start,
                    gradient.data + from.at(image, v.start - (down - 1) + v.low, h.start - (across - 1) + h.low),
                    result.data + start, relu ? x.data + start : nullptr, from, to, h.high > h.low ? v.high - v.low : 0,
                    (h.high - h.low) * filters, columns * filters, across * filters * COLUMNS},
                   {mirrored + skipped, no_bias, size, channels, NO_FLOOR});
        }
      }
      mirrored += down * across * filters * COLUMNS;
    }
  });
}

}  // namespace smrl
