// Shared by the forward and the backward kernel of networks of dense layers.
#pragma once

#include <algorithm>
#include <vector>

#include "call.h"
#include "gemm.h"
#include "norm.h"
#include "pool.h"

namespace smrl {

constexpr int64_t CACHED = 1 << 17;                // weights of a layer that fit a second-level cache
enum Slot { OWN = 2, NORMALISED = 4, SHARED = 5 };  // OWN and SHARED have two slots; gemm.cc uses the first two

// Memory for all threads. One network and several have separate memory: threads share several networks by members, and
// writing to a cache line that another core wrote last is slow.
inline float* shared(int64_t members, int64_t floats) { return scratch(SHARED + (members > 1), floats); }

inline Matrix matrix(const Array<float>& array) { return {array.data, array.dims[0], array.dims[1]}; }

// How dense layers make a network. Layer i computes s ← W f(s) + b, where s are the outputs of the layer before it, and
// the inputs of the network for the first layer, whose f is the identity. For the others, f is
//   PLAIN     ReLU;
//   NORM      ReLU after LayerNorm;
//   RESIDUAL  LayerNorm for layers 1, 3, …, and ReLU for layers 2, 4, …, which add the s of two layers before: pairs of
//             layers are blocks s ← s + W₂ relu(W₁ LN(s) + b₁) + b₂, and the last layer, an odd one, is W LN(s) + b.
struct Architecture {
  enum Form { PLAIN, NORM, RESIDUAL };
  int64_t layers, form;

  static Architecture of(const Call& call) {
    const Architecture found = {call.integer("layers"), call.integer("form")};
    require(found.layers > 0, "there are no layers");
    require(found.form >= PLAIN && found.form <= RESIDUAL, "the form of the networks is unknown");
    require(found.form != RESIDUAL || found.layers % 2 == 0, "residual blocks have two layers each");
    return found;
  }
  bool is_last(int64_t layer) const { return layer == layers - 1; }
  bool has_norm(int64_t layer) const { return form == NORM ? layer > 0 : form == RESIDUAL && layer % 2; }
  bool has_relu(int64_t layer) const { return layer > 0 && (form != RESIDUAL || layer % 2 == 0); }
  bool opens_block(int64_t layer) const { return form == RESIDUAL && layer % 2 && !is_last(layer); }
  bool closes_block(int64_t layer) const { return form == RESIDUAL && layer > 0 && layer % 2 == 0; }
  // The number of layers below this one whose inputs are normalised.
  int64_t norms(int64_t layer) const {
    return form == NORM ? std::max<int64_t>(layer - 1, 0) : form == RESIDUAL ? layer / 2 : 0;
  }
};

// The weights of all layers of all members, member by member.
struct Ensemble : Architecture {
  int64_t members, batch;
  std::vector<Matrix> weights = {};

  int64_t index(int64_t member, int64_t layer) const { return member * layers + layer; }
  const Matrix& at(int64_t member, int64_t layer) const { return weights[index(member, layer)]; }
  bool has_single_output(int64_t layer) const { return is_last(layer) && weights[layer].columns == 1; }
  bool is_wide() const {
    return std::any_of(weights.begin(), weights.begin() + layers,
                       [](const Matrix& each) { return each.rows * each.columns > CACHED; });
  }
  // Add the weights of the next layer; throw unless they fit the layers before and the other members.
  void add(const Array<float>& array) {
    const int64_t i = weights.size(), layer = i % layers;
    weights.push_back(matrix(array));
    require(weights[i].columns == weights[layer].columns, "members differ in their sizes");
    require(!closes_block(layer) || weights[i].columns == weights[i - 2].columns, "the width of a block changes");
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
