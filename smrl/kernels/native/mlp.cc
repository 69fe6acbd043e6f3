// Several multi-layer perceptrons of one architecture on the same inputs: dense layers with ReLU between them.
//
// A task takes up to ROWS rows of the batch through all layers of a member, so that threads synchronise once per call.
// Every output is computed by one task in a fixed order, so that its bits do not depend on the number of threads.
#include "mlp.h"

namespace smrl {

// Arguments: x (batch, in), W (in, out) and b (out) of every layer of every member, and with `chosen` the indices of
// the members to compute. Results: y (members, batch, out), and with `keep` the outputs of every hidden layer of every
// member.
KERNEL(smrl_mlp) {
  const bool keep = call.integer("keep"), choose = call.integer("chosen");
  const int64_t layers = call.integer("layers"), known = layers > 0 ? (call.arguments() - 1) / (2 * layers) : 0;
  require(known > 0, "there are no layers");
  const Array<float> x = call.argument(0, {ANY, ANY}), y = call.result(0, {choose ? ANY : known, x.dims[0], ANY});
  const int32_t* chosen = choose ? call.argument<int32_t>(call.arguments() - 1, {y.dims[0]}).data : nullptr;
  Ensemble nets = {y.dims[0], layers, x.dims[0], {}};
  call.require_counts(1 + 2 * layers * known + choose, 1 + (keep ? nets.members * (layers - 1) : 0));
  std::vector<const float*> biases;
  std::vector<float*> kept;  // the outputs of every layer; null for hidden layers that are not kept
  int64_t size = 0;
  for (int64_t i = 0; i < nets.members * layers; i++) {
    const int64_t member = i / layers, layer = i % layers, index = choose ? chosen[member] : member;
    require(index >= 0 && index < known, "a chosen member does not exist");
    const int64_t argument = 1 + 2 * nets.index(index, layer);
    const int64_t in = layer ? nets.weights.back().columns : x.dims[1];
    nets.weights.push_back(matrix(call.argument(argument, {in, nets.is_last(layer) ? y.dims[2] : ANY})));
    const int64_t out = nets.weights[i].columns;
    require(out == nets.at(0, layer).columns, "members differ in their sizes");
    biases.push_back(call.argument(argument + 1, {out}).data);
    if (nets.is_last(layer))
      kept.push_back(y.data + member * nets.batch * out);
    else
      kept.push_back(keep ? call.result(1 + i - member, {nets.batch, out}).data : nullptr);
    size += remainder_size(nets.weights[i]);
  }
  // Where to write the outputs of rows from `first` on. Hidden layers that are not kept use memory that stays cached.
  const auto outputs = [&](int64_t i, int64_t first, int64_t rows) {
    const int64_t width = nets.weights[i].columns;
    return kept[i] ? kept[i] + first * width : scratch(OWN + i % layers % 2, rows * width);
  };
  const auto floor = [&](int64_t layer) { return nets.is_last(layer) ? NO_FLOOR : 0; };
  if (nets.is_wide()) {
    const float* inputs = x.data;
    for (int64_t i = 0; i < nets.members * layers; i++) {
      const int64_t layer = i % layers, in = nets.weights[i].rows;
      if (layer == 0) inputs = x.data;
      float* to = outputs(i, 0, nets.batch);
      if (nets.has_single_output(layer))
        blocks(1, nets.batch, [&](int64_t, int64_t first, int64_t rows) {
          single_output(rows, inputs + first * in, nets.weights[i].data, *biases[i], to + first, in);
        });
      else
        wide_layer(nets.batch, inputs, nets.weights[i], biases[i], floor(layer), to);
      inputs = to;
    }
    return;
  }
  float* workspace = shared(nets.members, size);
  std::vector<Right> rights;
  for (const Matrix& weights : nets.weights) rights.push_back(make_right(weights, workspace));
  blocks(nets.members, nets.batch, [&](int64_t member, int64_t first, int64_t rows) {
    Left left = {x.data + first * x.dims[1], x.dims[1]};
    for (int64_t layer = 0; layer < layers; layer++) {
      const int64_t i = nets.index(member, layer), width = nets.weights[i].columns;
      float* to = outputs(i, first, ROWS);
      if (nets.has_single_output(layer))
        single_output(rows, left.data, nets.weights[i].data, *biases[i], to, left.stride);
      else
        strip<false>(rows, left, rights[i], left.stride, {to, width, 0, biases[i], 0, floor(layer)});
      left = {to, width};
    }
  });
}

}  // namespace smrl
