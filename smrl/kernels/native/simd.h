// The widest vectors that the compiler supports on this processor.
#pragma once

#include <cstdint>

namespace smrl {

#if defined(__AVX512F__)
constexpr int WIDTH = 16, ROWS = 12;  // floats of a vector, and rows of a tile, whose sums fill the registers
#elif defined(__AVX__)
constexpr int WIDTH = 8, ROWS = 6;
#else
constexpr int WIDTH = 4, ROWS = 6;
#endif
constexpr int COLUMNS = 2 * WIDTH;  // columns of a tile

typedef float Vec __attribute__((vector_size(4 * WIDTH), aligned(4), may_alias));  // may be unaligned

inline Vec load(const float* from) { return *reinterpret_cast<const Vec*>(from); }
inline void store(float* to, Vec value) { *reinterpret_cast<Vec*>(to) = value; }
inline Vec larger(Vec x, Vec y) { return y > x ? y : x; }  // x where x is NaN

}  // namespace smrl
