// Shared by the forward and the backward kernel of multi-layer perceptrons.
#pragma once

#include <algorithm>
#include <vector>

#include "call.h"
#include "gemm.h"
#include "pool.h"

namespace smrl {

constexpr int64_t CACHED = 1 << 17;  // weights of a layer that fit a second-level cache
enum Slot { OWN = 2, SHARED = 4 };   // each has two slots; gemm.cc uses the first two

// Memory for all threads. One network and several have separate memory: threads share several networks by members, and
// writing to a cache line that another core wrote last is slow.
inline float* shared(int64_t members, int64_t floats) { return scratch(SHARED + (members > 1), floats); }

inline Matrix matrix(const Array<float>& array) { return {array.data, array.dims[0], array.dims[1]}; }

// The weights of all layers of all members, member by member.
struct Ensemble {
  int64_t members, layers, batch;
  std::vector<Matrix> weights;

  int64_t index(int64_t member, int64_t layer) const { return member * layers + layer; }
  const Matrix& at(int64_t member, int64_t layer) const { return weights[index(member, layer)]; }
  bool is_last(int64_t layer) const { return layer == layers - 1; }
  bool has_single_output(int64_t layer) const { return is_last(layer) && weights[layer].columns == 1; }
  bool is_wide() const {
    return std::any_of(weights.begin(), weights.begin() + layers,
                       [](const Matrix& each) { return each.rows * each.columns > CACHED; });
  }
};

// Call body(member, first row, rows) in parallel for blocks of up to ROWS rows of every member.
template <class Body>
void blocks(int64_t members, int64_t batch, Body body) {
  const int64_t count = divide_up(batch, ROWS);
  parallel(members * count, [&](int64_t task) {
    const int64_t first = task % count * ROWS;
    body(task / count, first, std::min<int64_t>(ROWS, batch - first));
  });
}

// The last columns of a matrix, which must be copied if it is the right side of a product; see `Right`.
inline int64_t remainder_columns(const Matrix& each) { return each.columns % WIDTH ? each.columns % COLUMNS : 0; }
inline int64_t remainder_size(const Matrix& each) {
  return remainder_columns(each) ? each.rows * padded(remainder_columns(each)) : 0;
}

inline Right make_right(const Matrix& each, float*& workspace) {
  const int64_t columns = remainder_columns(each);
  if (!columns) return {each.data, each.columns, each.columns};
  float* copy = workspace;
  pack(copy, each.data + each.columns - columns, each.columns, each.rows, columns, padded(columns));
  workspace += remainder_size(each);
  return {each.data, each.columns, each.columns, 1, copy};
}

}  // namespace smrl
