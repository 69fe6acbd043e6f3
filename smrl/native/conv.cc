// A convolution y = act(x * W + b) of images without padding and its gradients, act being ReLU or nothing.
//
// Images are (batch, height, width, channels): the floats of a row of the kernel lie side by side in the image, so that
// tiles of pixels × filters can be summed from the images where they are. The bits do not depend on the threads.
#include <algorithm>
#include <vector>

#include "call.h"
#include "pool.h"
#include "simd.h"

namespace {

constexpr int64_t BLOCK = 160;  // pixels whose part of a gradient is summed in registers
enum Slot { SHARED, MASKED, PARTIAL };

int64_t divide_up(int64_t x, int64_t y) { return (x + y - 1) / y; }

// The sums of a tile whose left rows lie anywhere: sum[r][c] += Σ_k a[r][k] · b[(k · C + c) · WIDTH …]
template <int R, int C>
inline __attribute__((always_inline)) void multiply(Vec (&sum)[R][C], const float* const (&a)[R], int64_t shift,
                                                    const float* b, int64_t depth) {
  for (int64_t k = shift; k < shift + depth; k++, b += C * WIDTH) {
    Vec right[C];
#pragma GCC unroll 2
    for (int c = 0; c < C; c++) right[c] = load(b + c * WIDTH);
#pragma GCC unroll 16
    for (int r = 0; r < R; r++) {
      const Vec left = a[r][k] - Vec{};
#pragma GCC unroll 2
      for (int c = 0; c < C; c++) sum[r][c] += left * right[c];
    }
  }
}

// The same at the given places of every row: sum[r][c] += Σ_k a[r][places[k]] · b[(k · C + c) · WIDTH …]
template <int R, int C>
inline __attribute__((always_inline)) void multiply(Vec (&sum)[R][C], const float* const (&a)[R], const int64_t* places,
                                                    const float* b, int64_t depth) {
  for (int64_t k = 0; k < depth; k++, b += C * WIDTH) {
    const int64_t place = places[k];
    Vec right[C];
#pragma GCC unroll 2
    for (int c = 0; c < C; c++) right[c] = load(b + c * WIDTH);
#pragma GCC unroll 16
    for (int r = 0; r < R; r++) {
      const Vec left = a[r][place] - Vec{};
#pragma GCC unroll 2
      for (int c = 0; c < C; c++) sum[r][c] += left * right[c];
    }
  }
}

inline void put(const Vec (&sum)[2], float* to, int64_t width) {
  if (width == COLUMNS) {
    store(to, sum[0]);
    store(to + WIDTH, sum[1]);
  } else {
    float row[COLUMNS];
    store(row, sum[0]);
    store(row + WIDTH, sum[1]);
    for (int64_t i = 0; i < width; i++) to[i] = row[i];
  }
}

inline Vec masked(Vec gradient, Vec output) { return output > 0 ? gradient : Vec{}; }
inline float masked(float gradient, float output) { return output > 0 ? gradient : 0; }

// Pixels in memory: where the first one is, and how far apart images, rows and columns are.
template <class Float>
struct Pixels {
  Float* data;
  int64_t image, row, column;
  Float* at(int64_t i, int64_t y, int64_t x) const { return data + i * image + y * row + x * column; }
};

// A rectangle of output pixels, in so many images, which all see the same part of the kernel.
struct Region {
  int64_t images, rows, columns;
  Pixels<const float> from;
  Pixels<float> to;
  int64_t taps, depth;             // rows of the kernel, and floats of each
  int64_t image_step, panel_step;  // from one such row to the next
};

// The outputs of a region for a panel of filters that is `width` wide: act(sum + bias), `least` being 0 for ReLU.
__attribute__((noinline)) void convolve(const Region& region, const float* panel, const float* bias, float least, int64_t width) {
  const int64_t pixels = region.images * region.rows * region.columns;
  int64_t image = 0, y = 0, x = 0;
  const Vec start[2] = {load(bias), load(bias + WIDTH)};
  for (int64_t done = 0; done < pixels; done += ROWS) {
    const int count = std::min<int64_t>(ROWS, pixels - done);
    const float* from[ROWS];
    float* to[ROWS];
    for (int r = 0; r < ROWS; r++) {
      from[r] = region.from.at(image, y, x);
      to[r] = region.to.at(image, y, x);
      if (r + 1 >= count && done + ROWS >= pixels) continue;  // rows beyond the last pixel repeat it
      if (++x == region.columns) {
        x = 0;
        if (++y == region.rows) y = 0, image++;
      }
    }
    Vec sum[ROWS][2];
#pragma GCC unroll 16
    for (int r = 0; r < ROWS; r++) sum[r][0] = start[0], sum[r][1] = start[1];
    for (int64_t tap = 0; tap < region.taps; tap++)
      multiply(sum, from, tap * region.image_step, panel + tap * region.panel_step, region.depth);
#pragma GCC unroll 16
    for (int r = 0; r < ROWS; r++) {
      sum[r][0] = larger(sum[r][0], Vec{} + least);
      sum[r][1] = larger(sum[r][1], Vec{} + least);
    }
#pragma GCC unroll 16
    for (int r = 0; r < ROWS; r++) put(sum[r], to[r], width);
  }
}

// Add to the sums of a tile, in memory.
__attribute__((noinline)) void add(float* sums, const float* const* corners, const int64_t* places,
                                   const float* right, int64_t count) {
  const float* left[ROWS];
  std::copy_n(corners, ROWS, left);
  Vec sum[ROWS][2];
#pragma GCC unroll 32
  for (int i = 0; i < 2 * ROWS; i++) sum[i / 2][i % 2] = load(sums + i * WIDTH);
  multiply(sum, left, places, right, count);
#pragma GCC unroll 32
  for (int i = 0; i < 2 * ROWS; i++) store(sums + i * WIDTH, sum[i / 2][i % 2]);
}

// The gradient of a panel of filters before the activation, pixel by pixel; and add it up.
void pack(float* panel, float* sums, const float* gradient, const float* output, bool relu, int64_t pixels,
          int64_t filters, int64_t width) {
  Vec total[2] = {load(sums), load(sums + WIDTH)};
  for (; pixels > 0; pixels--, panel += COLUMNS, gradient += filters, output += filters) {
    if (width == COLUMNS) {
      for (int c = 0; c < 2; c++) {
        const Vec values = load(gradient + c * WIDTH);
        store(panel + c * WIDTH, relu ? masked(values, load(output + c * WIDTH)) : values);
      }
    } else {
      for (int64_t c = 0; c < COLUMNS; c++)
        panel[c] = c >= width ? 0 : relu ? masked(gradient[c], output[c]) : gradient[c];
    }
    for (int c = 0; c < 2; c++) total[c] += load(panel + c * WIDTH);
  }
  put(total, sums, COLUMNS);
}

// Memory that is needed soon: fetch its next part out of so many, while there is other work.
struct Ahead {
  const float* data;
  int64_t size;
  void prefetch(int64_t part, int64_t parts) const {
    constexpr int64_t LINE = 16;  // floats
    for (int64_t i = size * part / parts / LINE; i < size * (part + 1) / parts / LINE; i++)
      __builtin_prefetch(data + i * LINE, 0, 2);
  }
};

// Outputs start … end, along one axis, that all see the inputs under the taps low … high.
struct Span {
  int64_t start, end, low, high;
};

// Output q sees the inputs q - (taps - 1) … q, as far as there are such.
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

// x (batch, height, width, channels), W (kernel, kernel, channels, filters), b (filters) → y (batch, rows, columns, filters)
KERNEL(smrl_conv) {
  const Array x = call.argument(0), weights = call.argument(1), bias = call.argument(2), y = call.result(0);
  const int64_t stride = call.attribute<int64_t>("stride"), images = x.dims[0], width = x.dims[2], channels = x.dims[3];
  const int64_t kernel = weights.dims[0], filters = weights.dims[3], rows = y.dims[1], columns = y.dims[2];
  const float least = call.attribute<int64_t>("relu") ? 0 : -__builtin_inff();
  const int64_t depth = kernel * kernel * channels, panels = divide_up(filters, COLUMNS);
  float* packed = scratch(SHARED, panels * (depth + 1) * COLUMNS);  // for each panel its bias and its weights
  for (int64_t i = 0; i < panels * (depth + 1); i++) {
    const int64_t panel = i / (depth + 1), k = i % (depth + 1) - 1, first = panel * COLUMNS;
    const float* from = (k < 0 ? bias.data : weights.data + k * filters) + first;
    for (int64_t c = 0; c < COLUMNS; c++) packed[i * COLUMNS + c] = first + c < filters ? from[c] : 0;
  }
  // A task is a group of small images, or some rows of a large one where there are few.
  const int64_t group = std::min(images, divide_up(512, rows * columns));
  const int64_t parts = group > 1 ? 1 : std::min(rows, divide_up(16, images)), height = divide_up(rows, parts);
  parallel(divide_up(images, group) * parts, [&](int64_t task) {
    const int64_t image = task / parts * group, first = task % parts * height;
    if (first >= rows) return;
    Region region = {std::min(group, images - image), std::min(height, rows - first), columns,
                     {x.data, x.dims[1] * width * channels, stride * width * channels, stride * channels},
                     {y.data, rows * columns * filters, columns * filters, filters},
                     kernel, kernel * channels, width * channels, kernel * channels * COLUMNS};
    region.from.data = region.from.at(image, first, 0);
    region.to.data = region.to.at(image, first, 0);
    for (int64_t j = 0; j < filters; j += COLUMNS, region.to.data += COLUMNS) {
      const float* panel = packed + j * (depth + 1);
      convolve(region, panel + COLUMNS, panel, least, std::min<int64_t>(COLUMNS, filters - j));
    }
  });
}

// ∂y, y (batch, rows, columns, filters), W (kernel, kernel, channels, filters) → ∂x (batch, height, width, channels)
//
// The pixels of ∂x fall into stride² phases by the remainders of their coordinates. Those of a phase are a convolution of
// ∂y with every stride-th row and column of the mirrored kernel.
KERNEL(smrl_conv_inputs) {
  const Array gradient = call.argument(0), y = call.argument(1), weights = call.argument(2), result = call.result(0);
  const int64_t stride = call.attribute<int64_t>("stride"), relu = call.attribute<int64_t>("relu");
  const int64_t images = y.dims[0], rows = y.dims[1], columns = y.dims[2], filters = y.dims[3];
  const int64_t kernel = weights.dims[0], height = result.dims[1], width = result.dims[2], channels = result.dims[3];
  const int64_t panels = divide_up(channels, COLUMNS), size = kernel * kernel * filters * COLUMNS;
  float* packed = scratch(SHARED, panels * size);  // for each panel and phase the mirrored kernel
  const auto taps = [&](int64_t phase) { return phase < kernel ? divide_up(kernel - phase, stride) : 0; };
  parallel(panels, [&](int64_t panel) {
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
  const int64_t group = std::min(images, std::min<int64_t>(ROWS, divide_up(2048, rows * columns)));
  const int64_t image_size = rows * columns * filters;
  parallel(divide_up(images, group), [&](int64_t task) {
    const int64_t image = task * group, count = std::min(group, images - image);
    const float* source = gradient.data + image * image_size;
    if (relu) {
      const float* output = y.data + image * image_size;
      float* copy = scratch(MASKED, count * image_size);
      int64_t i = 0;
      for (; i + WIDTH <= count * image_size; i += WIDTH) store(copy + i, masked(load(source + i), load(output + i)));
      for (; i < count * image_size; i++) copy[i] = masked(source[i], output[i]);
      source = copy;
    }
    const float no_bias[COLUMNS] = {};
    int64_t skipped = 0;
    for (int64_t phase = 0; phase < stride * stride; phase++) {
      const int64_t top = phase / stride, left = phase % stride, down = taps(top), across = taps(left);
      const auto xs = spans(divide_up(width - left, stride), across, columns);
      for (const Span& ys : spans(divide_up(height - top, stride), down, rows)) {
        for (const Span& span : xs) {
          Region region = {count, ys.end - ys.start, span.end - span.start,
                           {source, image_size, columns * filters, filters},
                           {result.data, height * width * channels, stride * width * channels, stride * channels},
                           span.high > span.low ? ys.high - ys.low : 0, (span.high - span.low) * filters,
                           columns * filters, across * filters * COLUMNS};
          region.from.data = region.from.at(0, ys.start - (down - 1) + ys.low, span.start - (across - 1) + span.low);
          region.to.data += ((image * height + top + ys.start * stride) * width + left + span.start * stride) * channels;
          for (int64_t j = 0; j < channels; j += COLUMNS, region.to.data += COLUMNS) {
            const float* panel = packed + j / COLUMNS * size + skipped + (ys.low * across + span.low) * filters * COLUMNS;
            convolve(region, panel, no_bias, -__builtin_inff(), std::min<int64_t>(COLUMNS, channels - j));
          }
        }
      }
      skipped += down * across * filters * COLUMNS;
    }
  });
}

// x (batch, height, width, channels), ∂y, y (batch, rows, columns, filters) → ∂W (kernel, kernel, channels, filters), ∂b
//
// A task sums over a group of images; then the sums of the groups are added in their order.
KERNEL(smrl_conv_weights) {
  const Array x = call.argument(0), gradient = call.argument(1), y = call.argument(2);
  const Array result = call.result(0), bias = call.result(1);
  const int64_t stride = call.attribute<int64_t>("stride"), relu = call.attribute<int64_t>("relu");
  const int64_t images = y.dims[0], rows = y.dims[1], columns = y.dims[2], filters = y.dims[3];
  const int64_t height = x.dims[1], width = x.dims[2], channels = x.dims[3], kernel = result.dims[0];
  const int64_t entries = kernel * kernel * channels, tiles = divide_up(entries, ROWS), pixels = rows * columns;
  const int64_t panels = divide_up(filters, COLUMNS), size = (tiles * ROWS + 1) * COLUMNS;
  const int64_t groups = std::min(std::min<int64_t>(images, 16), divide_up(images * pixels, 128));
  float* partial = scratch(SHARED, groups * panels * size);  // sums for the entries of the kernel, and for the bias
  std::vector<const float*> corners(tiles * ROWS);           // what these entries see at the first pixel
  for (int64_t i = 0, run = kernel * channels; i < tiles * ROWS; i++) {
    const int64_t entry = std::min(i, entries - 1);  // those beyond the last one repeat it
    corners[i] = x.data + entry / run * width * channels + entry % run;
  }
  parallel(groups, [&](int64_t group) {
    const int64_t begin = images * group / groups * pixels, end = images * (group + 1) / groups * pixels;
    float *sums = partial + group * panels * size, *right = scratch(MASKED, panels * BLOCK * COLUMNS);
    std::fill_n(sums, panels * size, 0.0f);
    int64_t place = begin / pixels * height * width * channels, column = 0, row = 0;
    for (int64_t start = begin; start < end; start += BLOCK) {
      const int64_t count = std::min(BLOCK, end - start);
      int64_t places[BLOCK];
      for (int64_t i = 0; i < count; i++) {
        places[i] = place;
        place += stride * channels;
        if (++column == columns) {
          column = 0;
          place += (width - columns) * stride * channels;
          if (++row == rows) row = 0, place += (height - rows * stride) * width * channels;
        }
      }
      const float *from = gradient.data + start * filters, *output = y.data + start * filters;
      for (int64_t i = 0; i < panels; i++) {
        const int64_t first = i * COLUMNS, span = std::min<int64_t>(COLUMNS, filters - first);
        pack(right + i * BLOCK * COLUMNS, sums + (i + 1) * size - COLUMNS, from + first, output + first, relu, count,
             filters, span);
      }
      const Ahead ahead[] = {{from + count * filters, count * filters},
                             {output + count * filters, relu * count * filters},
                             {x.data + place + (kernel - 1) * width * channels, count * stride * stride * channels}};
      for (int64_t i = 0; i < panels * tiles; i++) {
        const int64_t panel = i / tiles, tile = i % tiles;
        for (const Ahead& next : ahead) next.prefetch(i, panels * tiles);
        add(sums + panel * size + tile * ROWS * COLUMNS, &corners[tile * ROWS], places,
            right + panel * BLOCK * COLUMNS, count);
      }
    }
  });
  parallel(panels, [&](int64_t panel) {
    const int64_t first = panel * COLUMNS, span = std::min<int64_t>(COLUMNS, filters - first);
    for (int64_t entry = 0; entry <= entries; entry++) {
      const float* from = partial + panel * size + (entry < entries ? entry : tiles * ROWS) * COLUMNS;
      Vec sum[2] = {};
      for (int64_t group = 0; group < groups; group++, from += panels * size) {
        for (int c = 0; c < 2; c++) sum[c] += load(from + c * WIDTH);
      }
      put(sum, (entry < entries ? result.data + entry * filters : bias.data) + first, span);
    }
  });
}
