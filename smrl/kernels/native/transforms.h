// The transforms of Winograd's F(4×4, 3×3): a window of 6 × 6 inputs gives a tile of 4 × 4 outputs.
//
//   y = Aᵀ[(G w Gᵀ) ⊙ (Bᵀ x B)] A        ∂w = Gᵀ[Σ_tiles (Bᵀ x B) ⊙ (A ∂y Aᵀ)] G
//
// Along each side, kernels and outputs are polynomials, which are multiplied through their values at six points. With
// the points 0, ±√½, ±√2 and ∞ errors are about half of those with the usual 0, ±1, ±2 and ∞.
#pragma once

#include "simd.h"

namespace smrl::winograd {

constexpr int TILE = 4, WINDOW = 6, TAPS = 3;                             // sides in pixels, and weights
constexpr float LOW = 0.70710678118654752f, HIGH = 1.41421356237309505f;  // the points other than 0 and ∞
constexpr float LOW_WEIGHT = -2 / 3.0f, HIGH_WEIGHT = 1 / 6.0f;           // 1 / Π (point - others), in G

// Bᵀ x
struct InputTransform {
  static constexpr int IN = WINDOW, OUT = WINDOW;
  static inline __attribute__((always_inline)) void apply(const Vec (&x)[IN], Vec (&to)[OUT]) {
    const Vec low_even = x[4] - 2 * x[2], low_odd = x[3] - 2 * x[1];
    const Vec high_even = x[4] - 0.5f * x[2], high_odd = x[3] - 0.5f * x[1];
    to[0] = x[0] + x[4] - 2.5f * x[2];
    to[1] = low_even + LOW * low_odd;
    to[2] = low_even - LOW * low_odd;
    to[3] = high_even + HIGH * high_odd;
    to[4] = high_even - HIGH * high_odd;
    to[5] = x[1] + x[5] - 2.5f * x[3];
  }
};

// Aᵀ m
struct OutputTransform {
  static constexpr int IN = WINDOW, OUT = TILE;
  static inline __attribute__((always_inline)) void apply(const Vec (&m)[IN], Vec (&to)[OUT]) {
    const Vec low_even = m[1] + m[2], low_odd = LOW * (m[1] - m[2]);
    const Vec high_even = m[3] + m[4], high_odd = HIGH * (m[3] - m[4]);
    to[0] = m[0] + low_even + high_even;
    to[1] = low_odd + high_odd;
    to[2] = 0.5f * low_even + 2 * high_even;
    to[3] = m[5] + 0.5f * low_odd + 2 * high_odd;
  }
};

// A ∂y
struct OutputGradientTransform {
  static constexpr int IN = TILE, OUT = WINDOW;
  static inline __attribute__((always_inline)) void apply(const Vec (&y)[IN], Vec (&to)[OUT]) {
    const Vec low_even = y[0] + 0.5f * y[2], low_odd = y[1] + 0.5f * y[3];
    const Vec high_even = y[0] + 2 * y[2], high_odd = y[1] + 2 * y[3];
    to[0] = y[0];
    to[1] = low_even + LOW * low_odd;
    to[2] = low_even - LOW * low_odd;
    to[3] = high_even + HIGH * high_odd;
    to[4] = high_even - HIGH * high_odd;
    to[5] = y[3];
  }
};

// G w
struct KernelTransform {
  static constexpr int IN = TAPS, OUT = WINDOW;
  static inline __attribute__((always_inline)) void apply(const Vec (&w)[IN], Vec (&to)[OUT]) {
    const Vec low_even = LOW_WEIGHT * (w[0] + 0.5f * w[2]), low_odd = LOW_WEIGHT * LOW * w[1];
    const Vec high_even = HIGH_WEIGHT * (w[0] + 2 * w[2]), high_odd = HIGH_WEIGHT * HIGH * w[1];
    to[0] = w[0];
    to[1] = low_even + low_odd;
    to[2] = low_even - low_odd;
    to[3] = high_even + high_odd;
    to[4] = high_even - high_odd;
    to[5] = w[2];
  }
};

// Gᵀ m
struct KernelGradientTransform {
  static constexpr int IN = WINDOW, OUT = TAPS;
  static inline __attribute__((always_inline)) void apply(const Vec (&m)[IN], Vec (&to)[OUT]) {
    const Vec low_even = LOW_WEIGHT * (m[1] + m[2]), low_odd = LOW_WEIGHT * LOW * (m[1] - m[2]);
    const Vec high_even = HIGH_WEIGHT * (m[3] + m[4]), high_odd = HIGH_WEIGHT * HIGH * (m[3] - m[4]);
    to[0] = m[0] + low_even + high_even;
    to[1] = low_odd + high_odd;
    to[2] = m[5] + 0.5f * low_even + 2 * high_even;
  }
};

// Transform a square of vectors along both sides: `from(i, j)` loads them, and `to(i, j, vector)` stores the results.
template <class Map, class From, class To>
inline __attribute__((always_inline)) void transform(From from, To to) {
  Vec half[Map::OUT][Map::IN];
#pragma GCC unroll 6
  for (int j = 0; j < Map::IN; j++) {
    Vec in[Map::IN], out[Map::OUT];
#pragma GCC unroll 6
    for (int i = 0; i < Map::IN; i++) in[i] = from(i, j);
    Map::apply(in, out);
#pragma GCC unroll 6
    for (int i = 0; i < Map::OUT; i++) half[i][j] = out[i];
  }
#pragma GCC unroll 6
  for (int i = 0; i < Map::OUT; i++) {
    Vec out[Map::OUT];
    Map::apply(half[i], out);
#pragma GCC unroll 6
    for (int j = 0; j < Map::OUT; j++) to(i, j, out[j]);
  }
}

}  // namespace smrl::winograd
