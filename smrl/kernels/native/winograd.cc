// Convolutions in Winograd's form: for each of the 36 positions of a transformed window, a product of tiles × channels
// by channels × filters, or for the gradient of the weights, of channels × tiles by tiles × filters.
//
// Tiles are transformed, multiplied and transformed back in blocks, so that intermediate results stay in the
// second-level cache. Every output is computed by one task, so that the bits do not depend on the number of threads.
#include "winograd.h"

#include <algorithm>

#include "pool.h"
#include "transforms.h"

namespace smrl::winograd {
namespace {

constexpr int POSITIONS = WINDOW * WINDOW;
constexpr int64_t BLOCK = 24;  // tiles at a time
static_assert(BLOCK % ROWS == 0);
enum Slot { SHARED, TILES };

// The first pixel of a tile.
struct Corner {
  int64_t image, row, column;
};

// The tiles of images, row by row.
struct Grid {
  int64_t down, across, count;
  explicit Grid(const Images& of)
      : down(divide_up(of.height, TILE)), across(divide_up(of.width, TILE)), count(of.count * down * across) {}
  Corner at(int64_t tile) const { return {tile / (down * across), tile / across % down * TILE, tile % across * TILE}; }
};

// From one position of a block to the next. Multiples of large powers of two would conflict in the cache.
int64_t step(int64_t span) { return BLOCK * span + LINE; }

// A square of pixels whose channels fill vectors.
struct Square {
  const float* data;
  int64_t row, column;  // steps
  Vec at(int i, int j, int64_t channel) const { return load(data + i * row + j * column + channel); }
};

// Return the square of an image at a corner, or a copy padded with zeros if the image does not contain all of it.
template <int SIDE>
Square square(const Images& images, const Corner& corner, float* copy) {
  const int64_t top = corner.row, left = corner.column, channels = images.channels;
  const int64_t span = divide_up(channels, WIDTH) * WIDTH;
  if (span == channels && top >= 0 && left >= 0 && top + SIDE <= images.height && left + SIDE <= images.width)
    return {images.data + images.at(corner.image, top, left), images.width * channels, channels};
  std::fill_n(copy, SIDE * SIDE * span, 0.0f);
  const int64_t first = std::max<int64_t>(0, -left), end = std::min<int64_t>(SIDE, images.width - left);
  for (int64_t i = std::max<int64_t>(0, -top); i < std::min<int64_t>(SIDE, images.height - top); i++) {
    for (int64_t j = first; j < end; j++)
      std::copy_n(images.data + images.at(corner.image, top + i, left + j), channels, copy + (i * SIDE + j) * span);
  }
  return {copy, SIDE * span, span};
}

// Prefetch the square of TILE × TILE pixels at a corner. This must be inlined, because GCC removes calls of functions
// that only prefetch.
template <bool WRITES>
inline __attribute__((always_inline)) void prefetch(const Images& images, const float* data, const Corner& corner) {
  for (int64_t i = 0; i < TILE; i++) {
    const float* row = data + images.at(corner.image, corner.row + i, corner.column);
    for (int64_t k = 0; k < TILE * images.channels; k += LINE) __builtin_prefetch(row + k, WRITES, 2);
  }
}

// Compute Bᵀ x B for the tile at a corner.
void transform_window(const Images& x, const Corner& corner, float* copy, float* to) {
  const Square window = square<WINDOW>(x, corner, copy);
  const int64_t span = divide_up(x.channels, WIDTH) * WIDTH;
  for (int64_t c = 0; c < span; c += WIDTH) {
    transform<InputTransform>([&](int i, int j) { return window.at(i, j, c); },
                              [&](int i, int j, Vec value) { store(to + (i * WINDOW + j) * step(span) + c, value); });
  }
}

// Compute A ∂y Aᵀ for the tile at a corner, in panels, and add ∂y to the totals.
void transform_tile(const Images& gradient, const Corner& corner, float* copy, float* to, float* totals) {
  const Square tile = square<TILE>(gradient, corner, copy);
  for (int64_t f = 0; f < gradient.channels; f += WIDTH) {
    float* panel = to + f / COLUMNS * POSITIONS * step(COLUMNS) + f % COLUMNS;
    Vec total = {};
    transform<OutputGradientTransform>(
        [&](int i, int j) {
          const Vec value = tile.at(i, j, f);
          total += value;
          return value;
        },
        [&](int i, int j, Vec value) { store(panel + (i * WINDOW + j) * step(COLUMNS), value); });
    store(totals + f, load(totals + f) + total);
  }
}

// Writes the outputs of a tile: max(Aᵀ m A + bias, floor), or zero where the ReLU mask is not positive.
struct Result {
  const Images& y;
  const float *bias, *relu_mask;
  float floor;

  void write(const float* products, int64_t span, const Corner& corner) const {
    const int64_t filters = y.channels, bottom = y.height - corner.row, right = y.width - corner.column;
    const int64_t start = y.at(corner.image, corner.row, corner.column);
    for (int64_t f = 0; f < filters; f += WIDTH) {
      transform<OutputTransform>([&](int i, int j) { return load(products + (i * WINDOW + j) * step(span) + f); },
                                 [&](int i, int j, Vec value) {
                                   if (i >= bottom || j >= right) return;
                                   const int64_t at = start + (i * y.width + j) * filters + f;
                                   value = larger(value + load(bias + f), Vec{} + floor);
                                   if (relu_mask) value = get(relu_mask + at, filters - f) > 0 ? value : Vec{};
                                   put(y.data + at, value, filters - f);
                                 });
    }
  }
};

}  // namespace

bool is_faster(int64_t kernel, int64_t stride, const Images& from, const Images& to) {
  // Direct sums take 9 products for each pixel of the smaller images. A tile takes 36, plus its transforms.
  const int64_t pixels = to.count * std::min(from.height, to.height) * std::min(from.width, to.width);
  return kernel == TAPS && stride == 1 && std::min(from.channels, to.channels) >= 16 && pixels >= 6 * Grid(to).count;
}

void convolve(const Images& x, int64_t padding, const float* weights, bool is_mirrored, const float* bias, float floor,
              const float* relu_mask, const Images& y) {
  const int64_t depth = x.channels, filters = y.channels, panels = divide_up(filters, COLUMNS);
  const int64_t size = POSITIONS * depth * COLUMNS, span = divide_up(depth, WIDTH) * WIDTH, wide = panels * COLUMNS;
  float *packed = scratch(SHARED, panels * (size + COLUMNS)), *biases = packed + panels * size;
  std::fill_n(biases, wide, 0.0f);
  if (bias) std::copy_n(bias, filters, biases);
  parallel(depth, [&](int64_t c) {  // G w Gᵀ: a matrix for each panel and position
    for (int64_t f = 0; f < wide; f += WIDTH) {
      float* to = packed + f / COLUMNS * size + c * COLUMNS + f % COLUMNS;
      transform<KernelTransform>(
          [&](int i, int j) {
            if (!is_mirrored) return get(weights + ((i * TAPS + j) * depth + c) * filters + f, filters - f);
            float column[WIDTH] = {};
            for (int64_t k = 0; k < std::min<int64_t>(WIDTH, filters - f); k++)
              column[k] = weights[(((2 - i) * TAPS + 2 - j) * filters + f + k) * depth + c];
            return load(column);
          },
          [&](int i, int j, Vec value) { store(to + (i * WINDOW + j) * depth * COLUMNS, value); });
    }
  });
  const Grid grid(y);
  const Result result = {y, biases, relu_mask, floor};
  const auto window = [&](int64_t tile) {
    const Corner corner = grid.at(tile);
    return Corner{corner.image, corner.row - padding, corner.column - padding};
  };
  parallel(divide_up(grid.count, BLOCK), [&](int64_t task) {
    const int64_t begin = task * BLOCK, count = std::min(BLOCK, grid.count - begin), steps = panels * POSITIONS;
    float* windows = scratch(TILES, POSITIONS * (step(span) + step(wide) + span));
    float *products = windows + POSITIONS * step(span), *copy = products + POSITIONS * step(wide);
    for (int64_t i = 0; i < count; i++) transform_window(x, window(begin + i), copy, windows + i * span);
    for (int64_t i = 0; i < steps; i++) {
      for (int64_t k = begin + BLOCK * i / steps; k < begin + BLOCK * (i + 1) / steps; k++) {
        prefetch<true>(y, y.data, grid.at(k));
        if (relu_mask) prefetch<false>(y, relu_mask, grid.at(k));
        const Corner next = window(k + BLOCK);  // previous tiles have loaded the first rows and columns
        prefetch<false>(x, x.data, {next.image, next.row + 2, next.column + 2});
      }
      const float* left = windows + i % POSITIONS * step(span);
      float* to = products + i % POSITIONS * step(wide) + i / POSITIONS * COLUMNS;
      for (int64_t r = 0; r < count; r += ROWS)  // results for tiles beyond the last one are not used
        tile<false>(ROWS, {left + r * span, span}, packed + i * depth * COLUMNS, COLUMNS, depth,
                    {to + r * wide, wide, COLUMNS});
    }
    for (int64_t i = 0; i < count; i++) result.write(products + i * wide, wide, grid.at(begin + i));
  });
}

// A task sums over a group of tiles. Then the sums of the groups are added in a fixed order.
void weight_gradient(const Images& x, const Images& gradient, float* result, float* bias) {
  const int64_t channels = x.channels, filters = gradient.channels, panels = divide_up(filters, COLUMNS);
  const int64_t span = divide_up(channels, WIDTH) * WIDTH, wide = panels * COLUMNS, steps = panels * POSITIONS;
  const int64_t size = steps * channels * COLUMNS + wide, parts = divide_up(channels, ROWS);
  const Grid grid(gradient);
  int64_t groups = 1;  // not too many, because adding their sums takes time
  while (groups < 16 && 64 * 2 * groups <= grid.count) groups *= 2;
  float* partial = scratch(SHARED, groups * size);  // a matrix for each panel and position, and the bias
  parallel(groups, [&](int64_t group) {
    const int64_t start = grid.count * group / groups, end = grid.count * (group + 1) / groups;
    float* windows = scratch(TILES, POSITIONS * (step(span) + span + wide) + steps * step(COLUMNS));
    float *slopes = windows + POSITIONS * step(span), *copy = slopes + steps * step(COLUMNS);
    float *sums = partial + group * size, *totals = sums + size - wide;
    std::fill_n(totals, wide, 0.0f);
    for (int64_t begin = start; begin < end; begin += BLOCK) {
      const int64_t count = std::min(BLOCK, end - begin);
      for (int64_t i = 0; i < count; i++) {
        transform_window(x, grid.at(begin + i), copy, windows + i * span);
        transform_tile(gradient, grid.at(begin + i), copy, slopes + i * COLUMNS, totals);
      }
      for (int64_t i = 0; i < steps; i++) {
        for (int64_t k = begin + BLOCK * (i + steps) / steps; k < begin + BLOCK * (i + steps + 1) / steps; k++) {
          const Corner next = grid.at(k);
          prefetch<false>(gradient, gradient.data, next);
          prefetch<false>(x, x.data, {next.image, next.row + 2, next.column + 2});
        }
        for (int64_t part = 0; part < parts; part++) {
          const int64_t first = channels * part / parts, rows = channels * (part + 1) / parts - first;
          float* to = sums + (i * channels + first) * COLUMNS;
          tile<true>(rows, {windows + i % POSITIONS * step(span) + first, span}, slopes + i * step(COLUMNS), COLUMNS,
                     count, {to, COLUMNS, COLUMNS, begin == start ? nullptr : to, COLUMNS});
        }
      }
    }
  });
  const auto total = [&](const float* from) {
    Vec sum = {};
    for (int64_t group = 0; group < groups; group++) sum += load(from + group * size);
    return sum;
  };
  for (int64_t f = 0; f < filters; f += WIDTH) put(bias + f, total(partial + size - wide + f), filters - f);
  parallel(channels, [&](int64_t c) {
    for (int64_t f = 0; f < filters; f += WIDTH) {
      const float* from = partial + (f / COLUMNS * POSITIONS * channels + c) * COLUMNS + f % COLUMNS;
      transform<KernelGradientTransform>(
          [&](int i, int j) { return total(from + (i * WINDOW + j) * channels * COLUMNS); },
          [&](int i, int j, Vec value) {
            put(result + ((i * TAPS + j) * channels + c) * filters + f, value, filters - f);
          });
    }
  });
}

}  // namespace smrl::winograd
