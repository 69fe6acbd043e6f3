// Several networks of dense layers of one architecture on the same inputs; see `Architecture`.
//
// A task takes up to ROWS rows of the batch through all layers of a member, so that threads synchronise once per call.
// Every output is computed by one task in a fixed order, so that its bits do not depend on the number of threads.
#include "mlp.h"

namespace smrl {
namespace {

struct Layer {
  const float* bias;
  Norm norm;                    // of the inputs, if they are normalised
  float* outputs = nullptr;     // where to write the outputs, if they are kept,
  float* normalised = nullptr;  // the normalised inputs,
  float* statistics = nullptr;  // and their means and factors
};

struct ForwardPass {
  const Ensemble& nets;
  const std::vector<Layer>& layers;

  // Where to write the outputs of rows from `first` on. Those that are not kept use memory that stays cached: outputs of
  // even and of odd layers have their own, so that a block adds to its inputs in place.
  float* outputs(int64_t i, int64_t first, int64_t rows) const {
    const int64_t width = nets.weights[i].columns;
    return layers[i].outputs ? layers[i].outputs + first * width : scratch(OWN + i % nets.layers % 2, rows * width);
  }
  // Where to write the normalised inputs; null if the layer has none.
  float* normalised(int64_t i, int64_t first, int64_t rows) const {
    const int64_t width = nets.weights[i].rows;
    if (!nets.has_norm(i % nets.layers)) return nullptr;
    return layers[i].normalised ? layers[i].normalised + first * width : scratch(NORMALISED, rows * width);
  }
  // ReLU is applied to outputs at once, unless they are normalised before it.
  float floor(int64_t layer) const {
    return !nets.is_last(layer) && nets.has_relu(layer + 1) && !nets.has_norm(layer + 1) ? 0 : NO_FLOOR;
  }
  // Write the normalised inputs of a layer, and what its product is added to if it closes a block, for some rows.
  void prepare(int64_t i, int64_t first, int64_t rows, const float* inputs, float* normed, const float* skip,
               float* to) const {
    const int64_t layer = i % nets.layers, width = nets.weights[i].columns;
    if (normed)
      normalise(rows, nets.weights[i].rows, inputs, layers[i].norm, nets.has_relu(layer) ? 0 : NO_FLOOR, normed,
                layers[i].statistics ? layers[i].statistics + 2 * first : nullptr);
    if (nets.closes_block(layer)) {
      for (int64_t row = 0; row < rows; row++) {
#pragma GCC ivdep  // both may have the same address
        for (int64_t k = 0; k < width; k++) to[row * width + k] = skip[row * width + k] + layers[i].bias[k];
      }
    }
  }
  Output output(int64_t i, float* to) const {
    const int64_t layer = i % nets.layers, width = nets.weights[i].columns;
    Output out = {to, width, width, layers[i].bias, 0, floor(layer)};
    if (nets.closes_block(layer)) out.start = to, out.start_stride = width;
    return out;
  }

  // Layer by layer, for layers whose weights do not fit the caches.
  void run_wide(const float* x) const {
    const float *inputs = x, *skip = nullptr;
    for (int64_t i = 0; i < nets.members * nets.layers; i++) {
      const int64_t layer = i % nets.layers, in = nets.weights[i].rows, width = nets.weights[i].columns;
      if (layer == 0) inputs = x;
      if (nets.opens_block(layer)) skip = inputs;
      float *to = outputs(i, 0, nets.batch), *normed = normalised(i, 0, nets.batch);
      if (normed || nets.closes_block(layer))
        blocks(1, nets.batch, [&](int64_t, int64_t first, int64_t rows) {
          prepare(i, first, rows, inputs + first * in, normed ? normed + first * in : nullptr,
                  skip ? skip + first * width : nullptr, to + first * width);
        });
      const float* left = normed ? normed : inputs;
      if (nets.has_single_output(layer))
        blocks(1, nets.batch, [&](int64_t, int64_t first, int64_t rows) {
          single_output(rows, left + first * in, nets.weights[i].data, *layers[i].bias, to + first, in);
        });
      else
        wide_layer(nets.batch, left, nets.weights[i], output(i, to));
      inputs = to;
    }
  }

  // Block by block of rows through all layers.
  void run(const float* x) const {
    int64_t size = 0;
    for (const Matrix& weights : nets.weights) size += remainder_size(weights);
    float* workspace = shared(nets.members, size);
    std::vector<Right> rights;
    for (const Matrix& weights : nets.weights) rights.push_back(make_right(weights, workspace));
    blocks(nets.members, nets.batch, [&](int64_t member, int64_t first, int64_t rows) {
      const float *inputs = x + first * nets.weights[0].rows, *skip = nullptr;
      for (int64_t layer = 0; layer < nets.layers; layer++) {
        const int64_t i = nets.index(member, layer), in = nets.weights[i].rows;
        if (nets.opens_block(layer)) skip = inputs;
        float *to = outputs(i, first, ROWS), *normed = normalised(i, first, ROWS);
        prepare(i, first, rows, inputs, normed, skip, to);
        const float* left = normed ? normed : inputs;
        if (nets.has_single_output(layer))
          single_output(rows, left, nets.weights[i].data, *layers[i].bias, to, in);
        else
          strip<false>(rows, {left, in}, rights[i], in, output(i, to));
        inputs = to;
      }
    });
  }
};

}  // namespace

// Arguments: x (batch, in); W (in, out) and b (out) of every layer of every member, each followed by scale (in) and
// shift (in) if its inputs are normalised; and with `chosen` the indices of the members to compute. Results: y (members,
// batch, out), and with `keep`, for every layer but the first of every member, the inputs of W, and if these were
// normalised, what they were before and the means and factors of its rows (batch, 2).
KERNEL(smrl_mlp) {
  const bool keep = call.integer("keep"), choose = call.integer("chosen");
  const Architecture form = Architecture::of(call);
  const int64_t count = form.layers, arrays = 2 * (count + form.norms(count));
  const int64_t known = (call.arguments() - 1) / arrays;
  const float epsilon = call.number("epsilon");
  require(known > 0, "there are no networks");
  const Array<float> x = call.argument(0, {ANY, ANY}), y = call.result(0, {choose ? ANY : known, x.dims[0], ANY});
  const int32_t* chosen = choose ? call.argument<int32_t>(call.arguments() - 1, {y.dims[0]}).data : nullptr;
  Ensemble nets = {form, y.dims[0], x.dims[0]};
  call.require_counts(1 + arrays * known + choose,
                      1 + (keep ? nets.members * (count - 1 + 2 * form.norms(count)) : 0));
  std::vector<Layer> layers;
  for (int64_t i = 0, kept = 1; i < nets.members * count; i++) {
    const int64_t member = i / count, layer = i % count, index = choose ? chosen[member] : member;
    require(index >= 0 && index < known, "a chosen member does not exist");
    const int64_t argument = 1 + index * arrays + 2 * (layer + form.norms(layer));
    const int64_t in = layer ? nets.weights.back().columns : x.dims[1];
    nets.add(call.argument(argument, {in, nets.is_last(layer) ? y.dims[2] : ANY}));
    const int64_t out = nets.weights[i].columns;
    Layer each = {call.argument(argument + 1, {out}).data, {nullptr, nullptr, epsilon}};
    if (nets.has_norm(layer))
      each.norm = {call.argument(argument + 2, {in}).data, call.argument(argument + 3, {in}).data, epsilon};
    if (nets.is_last(layer)) each.outputs = y.data + member * nets.batch * out;
    if (keep && layer) {
      float* inputs = call.result(kept++, {nets.batch, in}).data;
      if (nets.has_norm(layer)) {
        each.normalised = inputs;
        inputs = call.result(kept++, {nets.batch, in}).data;
        each.statistics = call.result(kept++, {nets.batch, 2}).data;
      }
      layers.back().outputs = inputs;
    }
    layers.push_back(each);
  }
  const ForwardPass pass = {nets, layers};
  nets.is_wide() ? pass.run_wide(x.data) : pass.run(x.data);
}

}  // namespace smrl
