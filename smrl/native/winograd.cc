// Winograd's F(4×4, 3×3): the 16 outputs of a tile are 36 products, one for each place of a transformed window of 6 × 6.
//
//   y = Aᵀ[(G w Gᵀ) ⊙ (Bᵀ x B)] A        ∂w = Gᵀ[Σ_tiles (Bᵀ x B) ⊙ (A ∂y Aᵀ)] G
//
// As polynomials, window and kernel are multiplied by their values at 0, ±√½, ±√2 and ∞. With these points the errors are
// about a third of those with 0, ±1, ±2 and ∞. The bits do not depend on the threads.
#include "winograd.h"

#include <algorithm>

#include "pool.h"
#include "simd.h"

namespace winograd {
namespace {

#ifndef BLOCK_TILES
#define BLOCK_TILES 48
#endif
constexpr int TILE = 4, WINDOW = TILE + 2, PLACES = WINDOW * WINDOW;
constexpr int64_t BLOCK = BLOCK_TILES;  // tiles that are transformed, multiplied and transformed back before the next ones
constexpr float LOW = 0.70710678118654752f, HIGH = 1.41421356237309505f;  // the points
enum Slot { SHARED, TILES };

#define INLINE inline __attribute__((always_inline))

int64_t divide_up(int64_t x, int64_t y) { return (x + y - 1) / y; }
int64_t round_up(int64_t x, int64_t y) { return divide_up(x, y) * y; }

// Bᵀ x
struct ToWindow {
  static constexpr int IN = WINDOW, OUT = WINDOW;
  static INLINE void apply(const Vec (&x)[IN], Vec (&to)[OUT]) {
    const Vec even = x[4] - 2 * x[2], odd = x[3] - 2 * x[1], even2 = x[4] - 0.5f * x[2], odd2 = x[3] - 0.5f * x[1];
    to[0] = x[0] + x[4] - 2.5f * x[2];
    to[1] = even + LOW * odd;
    to[2] = even - LOW * odd;
    to[3] = even2 + HIGH * odd2;
    to[4] = even2 - HIGH * odd2;
    to[5] = x[1] + x[5] - 2.5f * x[3];
  }
};

// Aᵀ m
struct ToOutput {
  static constexpr int IN = WINDOW, OUT = TILE;
  static INLINE void apply(const Vec (&m)[IN], Vec (&to)[OUT]) {
    const Vec even = m[1] + m[2], odd = LOW * (m[1] - m[2]), even2 = m[3] + m[4], odd2 = HIGH * (m[3] - m[4]);
    to[0] = m[0] + even + even2;
    to[1] = odd + odd2;
    to[2] = 0.5f * even + 2 * even2;
    to[3] = m[5] + 0.5f * odd + 2 * odd2;
  }
};

// A ∂y
struct FromOutput {
  static constexpr int IN = TILE, OUT = WINDOW;
  static INLINE void apply(const Vec (&y)[IN], Vec (&to)[OUT]) {
    const Vec even = y[0] + 0.5f * y[2], odd = y[1] + 0.5f * y[3], even2 = y[0] + 2 * y[2], odd2 = y[1] + 2 * y[3];
    to[0] = y[0];
    to[1] = even + LOW * odd;
    to[2] = even - LOW * odd;
    to[3] = even2 + HIGH * odd2;
    to[4] = even2 - HIGH * odd2;
    to[5] = y[3];
  }
};

// G w
struct FromKernel {
  static constexpr int IN = 3, OUT = WINDOW;
  static INLINE void apply(const Vec (&w)[IN], Vec (&to)[OUT]) {
    const Vec even = (w[0] + 0.5f * w[2]) * (-2 / 3.0f), odd = w[1] * (-2 / 3.0f * LOW);
    const Vec even2 = (w[0] + 2 * w[2]) * (1 / 6.0f), odd2 = w[1] * (1 / 6.0f * HIGH);
    to[0] = w[0];
    to[1] = even + odd;
    to[2] = even - odd;
    to[3] = even2 + odd2;
    to[4] = even2 - odd2;
    to[5] = w[2];
  }
};

// Gᵀ m
struct ToKernel {
  static constexpr int IN = WINDOW, OUT = 3;
  static INLINE void apply(const Vec (&m)[IN], Vec (&to)[OUT]) {
    const Vec even = (m[1] + m[2]) * (-2 / 3.0f), even2 = (m[3] + m[4]) * (1 / 6.0f);
    to[0] = m[0] + even + even2;
    to[1] = (m[1] - m[2]) * (-2 / 3.0f * LOW) + (m[3] - m[4]) * (1 / 6.0f * HIGH);
    to[2] = 0.5f * even + 2 * even2 + m[5];
  }
};

// Transform a square of vectors along both sides; from(i, j) gives the vectors, and to(i, j, vector) takes the results.
template <class Map, class From, class To>
INLINE void transform(From from, To to) {
  Vec middle[Map::OUT][Map::IN];
#pragma GCC unroll 6
  for (int j = 0; j < Map::IN; j++) {
    Vec in[Map::IN], out[Map::OUT];
#pragma GCC unroll 6
    for (int i = 0; i < Map::IN; i++) in[i] = from(i, j);
    Map::apply(in, out);
#pragma GCC unroll 6
    for (int i = 0; i < Map::OUT; i++) middle[i][j] = out[i];
  }
#pragma GCC unroll 6
  for (int i = 0; i < Map::OUT; i++) {
    Vec out[Map::OUT];
    Map::apply(middle[i], out);
#pragma GCC unroll 6
    for (int j = 0; j < Map::OUT; j++) to(i, j, out[j]);
  }
}

// The first floats of a vector, the others zero.
Vec get(const float* from, int64_t count) {
  if (count >= WIDTH) return load(from);
  float values[WIDTH] = {};
  std::copy_n(from, count, values);
  return load(values);
}

void put(float* to, Vec value, int64_t count) {
  if (count >= WIDTH) return store(to, value);
  float values[WIDTH];
  store(values, value);
  std::copy_n(values, count, to);
}

// The tiles of the outputs, image by image and row by row.
struct Grid {
  int64_t down, across;
  Grid(int64_t rows, int64_t columns) : down(divide_up(rows, TILE)), across(divide_up(columns, TILE)) {}
  int64_t image(int64_t tile) const { return tile / (down * across); }
  int64_t row(int64_t tile) const { return tile / across % down * TILE; }
  int64_t column(int64_t tile) const { return tile % across * TILE; }
};

// A square of pixels, whose channels fill vectors.
struct Square {
  const float* data;
  int64_t row, column;  // steps
  Vec at(int i, int j, int64_t channel) const { return load(data + i * row + j * column + channel); }
};

// The square of an image at this place; where it is not whole, a copy in `room` with zeros.
template <int SIDE>
Square square(const Images& images, int64_t image, int64_t top, int64_t left, float* room) {
  const int64_t channels = images.channels, span = round_up(channels, WIDTH);
  const float* from = images.data + ((image * images.height + top) * images.width + left) * channels;
  if (span == channels && top >= 0 && left >= 0 && top + SIDE <= images.height && left + SIDE <= images.width)
    return {from, images.width * channels, channels};
  std::fill_n(room, SIDE * SIDE * span, 0.0f);
  const int64_t first = std::max<int64_t>(0, -left), end = std::min<int64_t>(SIDE, images.width - left);
  for (int64_t i = std::max<int64_t>(0, -top); i < std::min<int64_t>(SIDE, images.height - top); i++) {
    for (int64_t j = first; j < end; j++)
      std::copy_n(from + (i * images.width + j) * channels, channels, room + (i * SIDE + j) * span);
  }
  return {room, SIDE * span, span};
}

// Bᵀ x B, the places `step` apart.
__attribute__((noinline)) void transform_window(const Square& window, int64_t span, float* to, int64_t step) {
  for (int64_t c = 0; c < span; c += WIDTH) {
    transform<ToWindow>([&](int i, int j) { return window.at(i, j, c); },
                        [&](int i, int j, Vec value) { store(to + (i * WINDOW + j) * step + c, value); });
  }
}

// A place's products of ROWS tiles with a panel of weights.
__attribute__((noinline)) void multiply_tiles(float* to, int64_t span, const float* left, int64_t row,
                                              const float* right, int64_t depth) {
  Vec sum[ROWS][2] = {};
  multiply(sum, left, row, 1, right, depth);
#pragma GCC unroll 16
  for (int r = 0; r < ROWS; r++) {
    store(to + r * span, sum[r][0]);
    store(to + r * span + WIDTH, sum[r][1]);
  }
}

}  // namespace

bool is_faster(int64_t kernel, int64_t stride, int64_t inputs, int64_t outputs, int64_t rows, int64_t columns) {
  const Grid grid(rows, columns);  // a tile takes at least a third of the time of its outputs by direct sums
  return kernel == 3 && stride == 1 && std::min(inputs, outputs) >= 16 &&
         2 * rows * columns >= TILE * TILE * grid.down * grid.across;
}

void convolve(const Images& x, int64_t padding, const float* weights, bool is_mirrored, const float* bias, float least,
              const float* gate, const Images& y) {
  const int64_t depth = x.channels, filters = y.channels, panels = divide_up(filters, COLUMNS);
  const int64_t size = PLACES * depth * COLUMNS, span = round_up(depth, WIDTH), wide = panels * COLUMNS;
  float *packed = scratch(SHARED, panels * (size + COLUMNS)), *biases = packed + panels * size;
  std::fill_n(biases, wide, 0.0f);
  if (bias) std::copy_n(bias, filters, biases);
  parallel(panels * depth, [&](int64_t task) {  // G w Gᵀ: for each panel and place a matrix
    const int64_t panel = task / depth, c = task % depth;
    for (int64_t f = panel * COLUMNS; f < (panel + 1) * COLUMNS; f += WIDTH) {
      const int64_t count = std::clamp<int64_t>(filters - f, 0, WIDTH);
      transform<FromKernel>(
          [&](int i, int j) {
            if (!is_mirrored) return get(weights + ((i * 3 + j) * depth + c) * filters + f, count);
            float values[WIDTH] = {};
            for (int64_t k = 0; k < count; k++) values[k] = weights[((8 - i * 3 - j) * filters + f + k) * depth + c];
            return load(values);
          },
          [&](int i, int j, Vec value) {
            store(packed + panel * size + ((i * WINDOW + j) * depth + c) * COLUMNS + f % COLUMNS, value);
          });
    }
  });
  const Grid grid(y.height, y.width);
  const int64_t tiles = y.count * grid.down * grid.across;
  parallel(divide_up(tiles, BLOCK), [&](int64_t task) {
    const int64_t begin = task * BLOCK, count = std::min(BLOCK, tiles - begin);
    float *windows = scratch(TILES, PLACES * (BLOCK * (span + wide) + span)), *products = windows + PLACES * BLOCK * span;
    float* room = products + PLACES * BLOCK * wide;
    for (int64_t i = 0; i < count; i++) {
      const int64_t tile = begin + i;
      transform_window(
          square<WINDOW>(x, grid.image(tile), grid.row(tile) - padding, grid.column(tile) - padding, room), span,
          windows + i * span, BLOCK * span);
    }
    for (int64_t i = 0; i < panels * PLACES; i++) {
      const int64_t panel = i / PLACES, place = i % PLACES;
      for (int64_t r = 0; r < count; r += ROWS)  // rows beyond the last tile are multiplied and not used
        multiply_tiles(products + (place * BLOCK + r) * wide + panel * COLUMNS, wide,
                       windows + (place * BLOCK + r) * span, span, packed + i * depth * COLUMNS, depth);
    }
    for (int64_t i = 0; i < count; i++) {
      const int64_t tile = begin + i, row = grid.row(tile), column = grid.column(tile);
      const int64_t corner = ((grid.image(tile) * y.height + row) * y.width + column) * filters;
      const int64_t bottom = y.height - row, right = y.width - column;
      for (int64_t f = 0; f < filters; f += WIDTH) {
        const Vec shift = load(biases + f);
        transform<ToOutput>(
            [&](int i2, int j) { return load(products + ((i2 * WINDOW + j) * BLOCK + i) * wide + f); },
            [&](int i2, int j, Vec value) {
              if (i2 >= bottom || j >= right) return;
              const int64_t at = corner + (i2 * y.width + j) * filters + f;
              value = larger(value + shift, Vec{} + least);
              if (gate) value = get(gate + at, filters - f) > 0 ? value : Vec{};
              put(y.data + at, value, filters - f);
            });
      }
    }
  });
}

namespace {

// sums (R × COLUMNS) = or += R columns of the left side, transposed, · a panel
template <int R = ROWS>
void add_tile(int64_t rows, float* sums, bool begins, const float* left, int64_t step, const float* right,
              int64_t depth) {
  if (rows == R) {
    Vec sum[R][2];
#pragma GCC unroll 32
    for (int i = 0; i < 2 * R; i++) sum[i / 2][i % 2] = begins ? Vec{} : load(sums + i * WIDTH);
    multiply(sum, left, 1, step, right, depth);
#pragma GCC unroll 32
    for (int i = 0; i < 2 * R; i++) store(sums + i * WIDTH, sum[i / 2][i % 2]);
  } else if constexpr (R > 1) {
    add_tile<R - 1>(rows, sums, begins, left, step, right, depth);
  }
}

}  // namespace

void weights(const Images& x, const Images& gradient, float* result, float* bias) {
  const int64_t channels = x.channels, filters = gradient.channels, panels = divide_up(filters, COLUMNS);
  const int64_t span = round_up(channels, WIDTH), wide = panels * COLUMNS, size = PLACES * channels * wide + wide;
  const Grid grid(gradient.height, gradient.width);
  const int64_t tiles = x.count * grid.down * grid.across, parts = divide_up(channels, ROWS);
  int64_t groups = 1;  // to add up their sums takes time, so that none is small
  while (groups < 16 && 64 * 2 * groups <= tiles) groups *= 2;
  float* partial = scratch(SHARED, groups * size);  // for each panel and place a matrix; then the sums for the bias
  parallel(groups, [&](int64_t group) {
    const int64_t start = tiles * group / groups, end = tiles * (group + 1) / groups;
    float *windows = scratch(TILES, PLACES * (BLOCK + 1) * (span + wide)), *slopes = windows + PLACES * BLOCK * span;
    float *room = slopes + PLACES * BLOCK * wide, *sums = partial + group * size, *totals = sums + size - wide;
    std::fill_n(totals, wide, 0.0f);
    for (int64_t begin = start; begin < end; begin += BLOCK) {
      const int64_t count = std::min(BLOCK, end - begin);
      for (int64_t i = 0; i < count; i++) {
        const int64_t image = grid.image(begin + i), row = grid.row(begin + i), column = grid.column(begin + i);
        transform_window(square<WINDOW>(x, image, row, column, room), span, windows + i * span, BLOCK * span);
        const Square slope = square<TILE>(gradient, image, row, column, room);
        for (int64_t f = 0; f < filters; f += WIDTH) {
          float* to = slopes + f / COLUMNS * PLACES * BLOCK * COLUMNS + i * COLUMNS + f % COLUMNS;
          Vec total = {};
          transform<FromOutput>(
              [&](int i2, int j) {
                const Vec value = slope.at(i2, j, f);
                total += value;
                return value;
              },
              [&](int i2, int j, Vec value) { store(to + (i2 * WINDOW + j) * BLOCK * COLUMNS, value); });
          store(totals + f, load(totals + f) + total);
        }
      }
      for (int64_t i = 0; i < panels * PLACES; i++) {
        for (int64_t part = 0; part < parts; part++) {
          const int64_t first = channels * part / parts, rows = channels * (part + 1) / parts - first;
          add_tile(rows, sums + (i * channels + first) * COLUMNS, begin == start,
                   windows + i % PLACES * BLOCK * span + first, span, slopes + i * BLOCK * COLUMNS, count);
        }
      }
    }
  });
  parallel(panels * (channels + 1), [&](int64_t task) {
    const int64_t c = task / panels, panel = task % panels;
    for (int64_t f = panel * COLUMNS; f < std::min(filters, (panel + 1) * COLUMNS); f += WIDTH) {
      const auto total = [&](const float* from) {
        Vec sum = {};
        for (int64_t group = 0; group < groups; group++) sum += load(from + group * size);
        return sum;
      };
      if (c == channels) {
        put(bias + f, total(partial + size - wide + f), filters - f);
        continue;
      }
      const float* from = partial + (panel * PLACES * channels + c) * COLUMNS + f % COLUMNS;
      transform<ToKernel>([&](int i, int j) { return total(from + (i * WINDOW + j) * channels * COLUMNS); },
                          [&](int i, int j, Vec value) {
                            put(result + ((i * 3 + j) * channels + c) * filters + f, value, filters - f);
                          });
    }
  });
}

}  // namespace winograd
