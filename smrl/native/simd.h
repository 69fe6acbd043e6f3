// Vectors of the widest kind that the compiler has for this processor, and the tile that all products are made of.
#pragma once

#include <cstdint>

#if defined(__AVX512F__)
constexpr int WIDTH = 16, ROWS = 12;  // floats in a vector; rows of a tile, so that its sums fill the registers
#elif defined(__AVX__)
constexpr int WIDTH = 8, ROWS = 6;
#else
constexpr int WIDTH = 4, ROWS = 6;
#endif
constexpr int COLUMNS = 2 * WIDTH;  // of a tile

typedef float Vec __attribute__((vector_size(4 * WIDTH), aligned(4), may_alias));  // at any address

inline Vec load(const float* from) { return *reinterpret_cast<const Vec*>(from); }
inline void store(float* to, Vec value) { *reinterpret_cast<Vec*>(to) = value; }
inline Vec larger(Vec x, Vec y) { return x > y ? x : y; }

// Sums of a tile: sum[r][c] += Σ_k a[r · row + k · step] · b[(k · C + c) · WIDTH …]
template <int R, int C>
inline __attribute__((always_inline)) void multiply(Vec (&sum)[R][C], const float* a, int64_t row, int64_t step,
                                                    const float* b, int64_t depth) {
  for (int64_t k = 0; k < depth; k++, a += step, b += C * WIDTH) {
    Vec right[C];
#pragma GCC unroll 2
    for (int c = 0; c < C; c++) right[c] = load(b + c * WIDTH);
#pragma GCC unroll 16
    for (int r = 0; r < R; r++) {
      const Vec left = a[r * row] - Vec{};
#pragma GCC unroll 2
      for (int c = 0; c < C; c++) sum[r][c] += left * right[c];
    }
  }
}
