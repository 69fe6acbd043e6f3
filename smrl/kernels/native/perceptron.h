// What the kernels of perceptrons share.
#pragma once

#include <algorithm>
#include <vector>

#include "call.h"
#include "layer.h"
#include "pool.h"

constexpr int64_t CACHED = 1 << 17;  // weights of a layer that a second-level cache holds
enum Slot { OWN = 2, SHARED = 4 };   // two each; the first two slots are taken by the products of wide layers

// Memory for all threads. A single network's is apart from that of several, which threads share out by members: to
// write what another core wrote last takes long.
inline float* shared(int64_t members, int64_t floats) { return scratch(SHARED + (members > 1), floats); }

inline Matrix matrix(const Array& array) { return {array.data, array.dims[0], array.dims[1]}; }

// The members, one after the other, each with all of its layers.
struct Ensemble {
  int64_t members, layers, batch;
  std::vector<Matrix> weights;

  int64_t place(int64_t member, int64_t layer) const { return member * layers + layer; }
  const Matrix& at(int64_t member, int64_t layer) const { return weights[place(member, layer)]; }
  bool is_last(int64_t layer) const { return layer == layers - 1; }
  bool is_single(int64_t layer) const { return is_last(layer) && weights[layer].columns == 1; }
  bool is_wide() const {
    return std::any_of(weights.begin(), weights.begin() + layers,
                       [](const Matrix& each) { return each.rows * each.columns > CACHED; });
  }
};

// Call body(member, first row, rows) for so many rows of every member, in parallel.
template <class Body>
void blocks(int64_t members, int64_t batch, Body body) {
  const int64_t count = divide_up(batch, ROWS);
  parallel(members * count, [&](int64_t task) {
    const int64_t first = task % count * ROWS;
    body(task / count, first, std::min<int64_t>(ROWS, batch - first));
  });
}

// Columns of a matrix that must lie apart, where it is the right side of a product; see `Right`.
inline int64_t rest_of(const Matrix& each) { return each.columns % WIDTH ? each.columns % COLUMNS : 0; }
inline int64_t rest_size(const Matrix& each) { return rest_of(each) ? each.rows * padded(rest_of(each)) : 0; }

inline Right right_side(const Matrix& each, float*& room) {
  const int64_t rest = rest_of(each);
  if (!rest) return {each.data, each.columns, each.columns};
  float* apart = room;
  pack(apart, each.data + each.columns - rest, each.columns, each.rows, rest, padded(rest));
  room += rest_size(each);
  return {each.data, each.columns, each.columns, 1, apart};
}
