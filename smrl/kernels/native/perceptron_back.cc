// The gradients of perceptrons. Tasks are rows of the batch, as forward, and then rows of weights.
#include <numeric>
#include <utility>

#include "perceptron.h"

namespace {

constexpr int64_t DEPTH = 256;  // samples whose part of a gradient is summed in registers
constexpr int64_t GROUP = 2;    // members at a time, whose gradients of hidden layers stay in the caches

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

// The gradients of some members, computed step by step.
struct Back {
  const Ensemble& nets;
  const float* gradient;                        // ∂y (members, batch, out)
  const std::vector<const float*>& inputs;      // of every layer
  float* room;                                  // `size` floats
  bool is_sparse;                               // rows without a gradient are left out
  std::vector<float*> sums;                     // where each member's gradient of the inputs goes, if it is wanted
  std::vector<std::vector<int64_t>> rows = {};  // of the batch, by members, that have a gradient
  std::vector<float*> gradients = {};           // of the outputs of every layer, before ReLU

  static int64_t size(const Ensemble& nets) {
    int64_t total = nets.batch;
    for (const Matrix& each : nets.weights)
      total += nets.batch * (each.columns + 2 * COLUMNS) + (nets.is_wide() ? 0 : each.columns * (each.rows + COLUMNS));
    return total;
  }

  float* take(int64_t floats) { return std::exchange(room, room + floats); }
  int64_t lowest() const { return sums.empty() ? 1 : 0; }  // layer whose inputs' gradient is wanted
  float* below(int64_t i) const { return i % nets.layers ? gradients[i - 1] : sums[i / nets.layers]; }

  // Find the rows that have a gradient, and room for the gradients.
  void prepare() {
    rows.resize(nets.members);
    for (int64_t i = 0; i < nets.members * nets.batch; i++) {
      if (!is_sparse || gradient[i] != 0) rows[i / nets.batch].push_back(i % nets.batch);
    }
    for (int64_t i = 0; i < nets.members * nets.layers; i++) {
      const int64_t total = nets.batch * nets.weights[i].columns, member = i / nets.layers;
      gradients.push_back(nets.is_last(i % nets.layers) ? const_cast<float*>(gradient) + member * total : take(total));
    }
  }

  // ∂x = ∂y Wᵀ, layer by layer; for layers whose weights do not fit the caches.
  void descend_wide() const {
    for (int64_t i = nets.members * nets.layers - 1; i >= 0; i--) {
      const int64_t layer = i % nets.layers, in = nets.weights[i].rows;
      if (layer < lowest()) continue;
      float* to = below(i);
      if (nets.is_single(layer))
        blocks(1, nets.batch, [&](int64_t, int64_t first, int64_t count) {
          const float* mask[ROWS];
          for (int64_t r = 0; r < count; r++) mask[r] = inputs[i] + (first + r) * in;
          single_inputs(count, gradients[i] + first, nets.weights[i].data, layer ? mask : nullptr, to + first * in, in);
        });
      else
        wide_layer_inputs(nets.batch, gradients[i], nets.weights[i], layer ? inputs[i] : nullptr, to);
    }
  }

  // Wᵀ of every layer that needs it, in panels.
  std::vector<Right> transposed() {
    std::vector<Right> result;
    std::vector<std::pair<int64_t, int64_t>> panels;  // of a matrix, by their first columns
    for (int64_t i = 0; i < nets.members * nets.layers; i++) {
      const auto [_, in, out] = nets.weights[i];
      result.push_back({take(out * divide_up(in, COLUMNS) * COLUMNS), COLUMNS, in, out});
      if (i % nets.layers < lowest() || nets.is_single(i % nets.layers)) continue;
      for (int64_t j = 0; j < in; j += COLUMNS) panels.emplace_back(i, j);
    }
    parallel(panels.size(), [&](int64_t task) {
      const auto [i, j] = panels[task];
      const auto [from, in, out] = nets.weights[i];
      pack_transposed(const_cast<float*>(result[i].data) + j * out, from + j * out, out, out,
                      std::min<int64_t>(COLUMNS, in - j), COLUMNS);
    });
    return result;
  }

  // The same as `descend_wide`, row by row through all layers. Rows lie side by side whatever their numbers are.
  void descend() {
    const std::vector<Right> rights = transposed();
    const int64_t outputs = nets.at(0, nets.layers - 1).columns;
    blocks(nets.members, nets.batch, [&](int64_t member, int64_t first, int64_t most) {
      const int64_t count = std::min<int64_t>(most, rows[member].size() - first);
      if (count <= 0) return;
      Left left = {gradients[nets.place(member, nets.layers - 1)] + first * outputs, outputs};
      for (int64_t layer = nets.layers - 1; layer >= lowest(); layer--) {
        const int64_t i = nets.place(member, layer), in = nets.weights[i].rows;
        float *to = below(i) + first * in, slope[ROWS];
        const float* mask[ROWS];
        for (int64_t r = 0; r < count; r++) {
          const int64_t row = rows[member][first + r];
          mask[r] = inputs[i] + row * in;
          if (nets.is_single(layer)) slope[r] = gradients[i][row];
        }
        if (nets.is_single(layer))
          single_inputs(count, slope, nets.weights[i].data, layer ? mask : nullptr, to, in);
        else
          strip<false>(count, left, rights[i], left.stride, {to, in, 0, nullptr, 0, NO_LEAST, layer ? mask : nullptr});
        left = {to, in};
      }
    });
  }

  // Add the members' gradients of the inputs.
  void add_up(float* result) const {
    const int64_t in = nets.at(0, 0).rows;
    for (int64_t member = 0; member < nets.members; member++) {
      const float* from = sums[member];
      for (const int64_t row : rows[member]) {
        for (int64_t k = 0; k < in; k++) result[row * in + k] += *from++;
      }
    }
  }

  // ∂W and ∂b of every layer, to these places.
  void learn(const std::vector<std::pair<float*, float*>>& to) {
    float* ones = take(nets.batch);
    std::fill_n(ones, nets.batch, 1.0f);
    std::vector<Lesson> lessons;
    std::vector<std::pair<int64_t, int64_t>> tasks;  // of a lesson
    for (size_t i = 0; i < to.size(); i++) {
      const Matrix x = {inputs[i], nets.batch, nets.weights[i].rows};
      const Matrix back = {gradients[i], nets.batch, nets.weights[i].columns};
      lessons.push_back({x, back, right_side(back.columns == 1 ? x : back, room), to[i].first, to[i].second});
      for (int64_t task = 0; task < lessons[i].tasks(); task++) tasks.emplace_back(i, task);
    }
    parallel(tasks.size(), [&](int64_t task) { lessons[tasks[task].first].compute(tasks[task].second, ones); });
  }
};

}  // namespace

// ∂y (members, batch, out), x (batch, in), then the outputs of every hidden layer of every member, then W of every layer
// of every member → with `inputs` ∂x, summed over the members, then with `weights` ∂W and ∂b of every layer of every
// member
KERNEL(smrl_perceptrons_back) {
  const Array gradient = call.argument(0), x = call.argument(1);
  const bool has_inputs = call.attribute<int64_t>("inputs"), has_weights = call.attribute<int64_t>("weights");
  const int64_t members = gradient.dims[0], batch = gradient.dims[1], layers = call.attribute<int64_t>("layers");
  if (has_inputs && members > 1) std::fill_n(call.result(0).data, x.size(), 0.0f);
  for (int64_t first = 0; first < members; first += GROUP) {
    Ensemble nets = {std::min(GROUP, members - first), layers, batch, {}};
    std::vector<const float*> inputs;
    std::vector<std::pair<float*, float*>> learned;
    for (int64_t i = first * layers; i < (first + nets.members) * layers; i++) {
      inputs.push_back(i % layers ? call.argument(1 + i - i / layers).data : x.data);
      nets.weights.push_back(matrix(call.argument(2 + members * (layers - 1) + i)));
      if (has_weights)
        learned.emplace_back(call.result(has_inputs + 2 * i).data, call.result(has_inputs + 2 * i + 1).data);
    }
    // Where an actor learns from the least of several critics, most rows of each have no gradient, and are left out.
    const bool is_sparse = members > 1 && !has_weights && !nets.is_wide() && nets.is_single(layers - 1);
    float* room = shared(members, Back::size(nets) + (members > 1 ? nets.members * x.size() : 0));
    std::vector<float*> sums;
    for (int64_t member = 0; has_inputs && member < nets.members; member++) {
      sums.push_back(members > 1 ? room : call.result(0).data);
      if (members > 1) room += x.size();
    }
    Back back = {nets, gradient.data + first * batch * gradient.dims[2], inputs, room, is_sparse, sums};
    back.prepare();
    nets.is_wide() ? back.descend_wide() : back.descend();
    if (has_inputs && members > 1) back.add_up(call.result(0).data);
    if (has_weights) back.learn(learned);
  }
}
