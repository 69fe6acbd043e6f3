// Perceptrons, several of one architecture on the same inputs: dense layers with ReLU between them, and their gradients.
//
// A task takes up to ROWS rows of the batch through all layers of a member, so that threads meet once per call. Every
// output is computed by one task, in an order that does not depend on the number of threads; neither do its bits.
#include <numeric>
#include <utility>
#include <vector>

#include "call.h"
#include "layer.h"
#include "pool.h"

namespace {

constexpr int64_t CACHED = 1 << 17;  // weights of a layer that a second-level cache holds
constexpr int64_t DEPTH = 256;       // samples whose part of a gradient is summed in registers
enum Slot { OWN = 2, SHARED = 4 };   // of OWN and SHARED two each; the first two are taken by the products of wide layers

// Memory for all threads. A single network's is apart from that of several, which threads share out by members: to
// write what another core wrote last takes long.
float* shared(int64_t members, int64_t floats) { return scratch(SHARED + (members > 1), floats); }

Matrix matrix(const Array& array) { return {array.data, array.dims[0], array.dims[1]}; }

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
int64_t rest_of(const Matrix& each) { return each.columns % WIDTH ? each.columns % COLUMNS : 0; }
int64_t rest_size(const Matrix& each) { return rest_of(each) ? each.rows * padded(rest_of(each)) : 0; }

Right right_side(const Matrix& each, float*& room) {
  const int64_t rest = rest_of(each);
  if (!rest) return {each.data, each.columns, each.columns};
  float* apart = room;
  pack(apart, each.data + each.columns - rest, each.columns, each.rows, rest, padded(rest));
  room += rest_size(each);
  return {each.data, each.columns, each.columns, 1, apart};
}

// out (rows × width) = left · right, in parts of the depth that the caches hold.
template <bool BY_COLUMNS>
void deep_strip(int64_t rows, Left left, Right right, int64_t depth, Output out) {
  for (int64_t k = 0; k < depth; k += DEPTH) {
    const int64_t part = std::min(DEPTH, depth - k);
    if (k > 0) out.start = out.data, out.start_stride = out.stride;
    strip<BY_COLUMNS>(rows, left, right, part, out);
    left.data += BY_COLUMNS ? part * left.stride : part;
    right.data += part * right.stride;
    if (right.rest) right.rest += part * padded(right.width % COLUMNS);
  }
}

// What the gradients of a layer's weights and biases are computed from: ∂W = xᵀ ∂y and ∂b = Σ ∂y.
struct Lesson {
  Matrix x, gradient;  // (batch × in) and (batch × out)
  Right right;         // the gradient, or x where there is a single output
  float *weights, *bias;

  bool is_single() const { return gradient.columns == 1; }
  // Inputs of a task: several tiles of them where the outputs are few, so that all tasks take about as long.
  int64_t block() const { return ROWS * divide_up(128, gradient.columns); }
  int64_t tasks() const { return is_single() ? 1 : divide_up(x.columns, block()); }

  void compute(int64_t task, const float* ones) const {
    const int64_t batch = x.rows, in = x.columns, out = gradient.columns;
    if (is_single()) {
      *bias = std::accumulate(gradient.data, gradient.data + batch, 0.0f);
      return deep_strip<false>(1, {gradient.data, batch}, right, batch, {weights, in, in});
    }
    const int64_t end = std::min(in, (task + 1) * block());
    for (int64_t first = task * block(); first < end; first += ROWS)
      deep_strip<true>(std::min<int64_t>(ROWS, end - first), {x.data + first, in}, right, batch,
                       {weights + first * out, out, out});
    if (end == in) deep_strip<false>(1, {ones, batch}, right, batch, {bias, out, out});
  }
};

}  // namespace

// x (batch, in), then W (in, out) and b (out) of every layer of every member, then, with `chosen`, the members to
// compute → y (members, batch, out), and with `keep` the outputs of every hidden layer of every member
KERNEL(smrl_perceptrons) {
  const Array x = call.argument(0), y = call.result(0);
  const bool keep = call.attribute<int64_t>("keep"), choose = call.attribute<int64_t>("chosen");
  const auto* chosen = reinterpret_cast<const int32_t*>(call.argument(call.arguments() - 1).data);
  Ensemble nets = {y.dims[0], call.attribute<int64_t>("layers"), x.dims[0], {}};
  std::vector<const float*> biases;
  int64_t size = 0;
  for (int64_t i = 0; i < nets.members * nets.layers; i++) {
    const int64_t member = i / nets.layers, layer = i % nets.layers;
    const int64_t place = 1 + 2 * nets.place(choose ? chosen[member] : member, layer);
    nets.weights.push_back(matrix(call.argument(place)));
    biases.push_back(call.argument(place + 1).data);
    size += rest_size(nets.weights[i]);
  }
  // Where the outputs of rows from `first` on go: of hidden layers that are not kept, to where they stay in the caches.
  const auto outputs = [&](int64_t i, int64_t first, int64_t rows) {
    const int64_t member = i / nets.layers, layer = i % nets.layers, width = nets.weights[i].columns;
    if (nets.is_last(layer)) return y.data + (member * nets.batch + first) * width;
    return keep ? call.result(1 + i - member).data + first * width : scratch(OWN + layer % 2, rows * width);
  };
  const auto least = [&](int64_t layer) { return nets.is_last(layer) ? NO_LEAST : 0; };
  if (nets.is_wide()) {
    const float* inputs = x.data;
    for (int64_t i = 0; i < nets.members * nets.layers; i++) {
      const int64_t layer = i % nets.layers, in = nets.weights[i].rows;
      if (layer == 0) inputs = x.data;
      float* to = outputs(i, 0, nets.batch);
      if (nets.is_single(layer))
        blocks(1, nets.batch, [&](int64_t, int64_t first, int64_t rows) {
          single(rows, inputs + first * in, nets.weights[i].data, *biases[i], to + first, in);
        });
      else
        wide_layer(nets.batch, inputs, nets.weights[i], biases[i], least(layer), to);
      inputs = to;
    }
    return;
  }
  float* room = shared(nets.members, size);
  std::vector<Right> rights;
  for (const Matrix& weights : nets.weights) rights.push_back(right_side(weights, room));
  blocks(nets.members, nets.batch, [&](int64_t member, int64_t first, int64_t rows) {
    Left left = {x.data + first * x.dims[1], x.dims[1]};
    for (int64_t layer = 0; layer < nets.layers; layer++) {
      const int64_t i = nets.place(member, layer), width = nets.weights[i].columns;
      float* to = outputs(i, first, ROWS);
      if (nets.is_single(layer))
        single(rows, left.data, nets.weights[i].data, *biases[i], to, left.stride);
      else
        strip<false>(rows, left, rights[i], left.stride, {to, width, 0, biases[i], 0, least(layer)});
      left = {to, width};
    }
  });
}

// ∂y (members, batch, out), x (batch, in), then the outputs of every hidden layer of every member, then W of every layer
// of every member → with `inputs` ∂x, summed over the members, then with `weights` ∂W and ∂b of every layer of every
// member
KERNEL(smrl_perceptrons_back) {
  const Array gradient = call.argument(0), x = call.argument(1);
  const bool inputs = call.attribute<int64_t>("inputs"), weights = call.attribute<int64_t>("weights");
  Ensemble nets = {gradient.dims[0], call.attribute<int64_t>("layers"), gradient.dims[1], {}};
  const int64_t members = nets.members, layers = nets.layers, batch = nets.batch, count = members * layers;
  std::vector<const float*> inputs_of;  // every layer
  for (int64_t i = 0, hidden = 2; i < count; i++) {
    inputs_of.push_back(i % layers ? call.argument(hidden++).data : x.data);
    nets.weights.push_back(matrix(call.argument(2 + members * (layers - 1) + i)));
  }
  const bool is_wide = nets.is_wide();
  int64_t size = batch + members * x.size();
  for (const Matrix& each : nets.weights)
    size += batch * (each.columns + 2 * COLUMNS) + (is_wide ? 0 : each.columns * (each.rows + COLUMNS));
  float* room = shared(members, size);
  const auto take = [&](int64_t floats) { return std::exchange(room, room + floats); };
  std::vector<float*> gradients;  // of the outputs of every layer, before ReLU
  for (int64_t i = 0; i < count; i++) {
    const int64_t total = batch * nets.weights[i].columns;
    gradients.push_back(nets.is_last(i % layers) ? gradient.data + i / layers * total : take(total));
  }
  // Where an actor learns from the least of several critics, most rows of each have no gradient, and are left out.
  const bool is_sparse = !weights && !is_wide && nets.is_single(layers - 1);
  std::vector<std::vector<int64_t>> rows_of(members);
  for (int64_t i = 0; i < members * batch; i++) {
    if (!is_sparse || gradient.data[i] != 0) rows_of[i / batch].push_back(i % batch);
  }
  const bool is_sum = members > 1 || is_sparse;
  std::vector<float*> sums;  // gradients of the inputs by each member
  for (int64_t member = 0; inputs && member < members; member++)
    sums.push_back(is_sum ? take(x.size()) : call.result(0).data);

  const int64_t lowest = inputs ? 0 : 1;  // layer whose inputs' gradient is needed
  if (is_wide) {
    for (int64_t i = count - 1; i >= 0; i--) {
      const int64_t layer = i % layers, in = nets.weights[i].rows;
      if (layer < lowest) continue;
      float* to = layer ? gradients[i - 1] : sums[i / layers];
      if (nets.is_single(layer))
        blocks(1, batch, [&](int64_t, int64_t first, int64_t rows) {
          const float* mask[ROWS];
          for (int64_t r = 0; r < rows; r++) mask[r] = inputs_of[i] + (first + r) * in;
          single_inputs(rows, gradients[i] + first, nets.weights[i].data, layer ? mask : nullptr, to + first * in, in);
        });
      else
        wide_layer_inputs(batch, gradients[i], nets.weights[i], layer ? inputs_of[i] : nullptr, to);
    }
  } else {
    std::vector<Right> transposed;
    std::vector<std::pair<int64_t, int64_t>> panels;  // and their first columns
    for (int64_t i = 0; i < count; i++) {
      const auto [_, in, out] = nets.weights[i];
      transposed.push_back({take(out * divide_up(in, COLUMNS) * COLUMNS), COLUMNS, in, out});
      if (i % layers < lowest || nets.is_single(i % layers)) continue;
      for (int64_t j = 0; j < in; j += COLUMNS) panels.emplace_back(i, j);
    }
    parallel(panels.size(), [&](int64_t task) {
      const auto [i, j] = panels[task];
      const auto [from, in, out] = nets.weights[i];
      pack_transposed(const_cast<float*>(transposed[i].data) + j * out, from + j * out, out, out,
                      std::min<int64_t>(COLUMNS, in - j), COLUMNS);
    });
    blocks(members, batch, [&](int64_t member, int64_t first, int64_t most) {
      const int64_t rows = std::min<int64_t>(most, rows_of[member].size() - first);
      if (rows <= 0) return;
      Left left = {gradients[nets.place(member, layers - 1)] + first * gradient.dims[2], gradient.dims[2]};
      for (int64_t layer = layers - 1; layer >= lowest; layer--) {
        const int64_t i = nets.place(member, layer), in = nets.weights[i].rows;
        const float* mask[ROWS];
        float single_gradient[ROWS];
        for (int64_t r = 0; r < rows; r++) {
          const int64_t row = rows_of[member][first + r];
          mask[r] = inputs_of[i] + row * in;
          if (nets.is_single(layer)) single_gradient[r] = gradients[i][row];
        }
        float* to = (layer ? gradients[i - 1] : sums[member]) + first * in;
        if (nets.is_single(layer))
          single_inputs(rows, single_gradient, nets.weights[i].data, layer ? mask : nullptr, to, in);
        else
          strip<false>(rows, left, transposed[i], left.stride,
                       {to, in, 0, nullptr, 0, NO_LEAST, layer ? mask : nullptr});
        left = {to, in};
      }
    });
  }
  if (inputs && is_sum) {
    const int64_t in = x.dims[1];
    float* result = call.result(0).data;
    std::fill_n(result, batch * in, 0.0f);
    for (int64_t member = 0; member < members; member++) {
      for (size_t r = 0; r < rows_of[member].size(); r++) {
        for (int64_t k = 0; k < in; k++) result[rows_of[member][r] * in + k] += sums[member][r * in + k];
      }
    }
  }
  if (!weights) return;
  float* ones = take(batch);
  std::fill_n(ones, batch, 1.0f);
  std::vector<Lesson> lessons;
  std::vector<std::pair<int64_t, int64_t>> tasks;  // of every lesson
  for (int64_t i = 0; i < count; i++) {
    const Matrix from = {inputs_of[i], batch, nets.weights[i].rows}, back = {gradients[i], batch, nets.weights[i].columns};
    const Right right = right_side(back.columns == 1 ? from : back, room);
    lessons.push_back({from, back, right, call.result(inputs + 2 * i).data, call.result(inputs + 2 * i + 1).data});
    for (int64_t task = 0; task < lessons[i].tasks(); task++) tasks.emplace_back(i, task);
  }
  parallel(tasks.size(), [&](int64_t task) { lessons[tasks[task].first].compute(tasks[task].second, ones); });
}
