// The gradients of networks of dense layers. Tasks are rows of the batch, as in mlp.cc, and then rows of weights.
#include <numeric>
#include <utility>

#include "mlp.h"

namespace smrl {
namespace {

constexpr int64_t DEPTH = 256;  // samples whose gradients are summed in registers
constexpr int64_t GROUP = 2;    // members at a time, so that the gradients of hidden layers stay in the caches

// out (rows × width) = left · right, in parts of the depth that fit the caches.
template <bool BY_COLUMNS>
void deep_strip(int64_t rows, Left left, Right right, int64_t depth, Output out) {
  for (int64_t k = 0; k < depth; k += DEPTH) {
    const int64_t part = std::min(DEPTH, depth - k);
    if (k > 0) out.start = out.data, out.start_stride = out.stride;
    strip<BY_COLUMNS>(rows, left, right, part, out);
    left.data += BY_COLUMNS ? part * left.stride : part;
    right.data += part * right.stride;
    if (right.remainder) right.remainder += part * padded(right.width % COLUMNS);
  }
}

// Computes the gradients of a layer's weights and biases, ∂W = xᵀ ∂y and ∂b = Σ ∂y.
struct WeightGradient {
  Matrix x, gradient;  // (batch × in) and (batch × out)
  Right right;         // the gradient, or x if there is a single output
  float *weights, *bias;

  bool has_single_output() const { return gradient.columns == 1; }
  // Inputs of a task: more of them for a layer with few outputs, so that all tasks take about the same time.
  int64_t block() const { return ROWS * divide_up(128, gradient.columns); }
  int64_t tasks() const { return has_single_output() ? 1 : divide_up(x.columns, block()); }

  void compute(int64_t task, const float* ones) const {
    const int64_t batch = x.rows, in = x.columns, out = gradient.columns;
    if (has_single_output()) {
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

// What a layer read: the inputs of its weights, and if these were normalised, what they were before.
struct Read {
  const float* inputs;
  const float *before = nullptr, *statistics = nullptr, *scale = nullptr;
};

// Where the gradients of a layer's parameters go.
struct Written {
  float *weights, *bias;
  float *scale = nullptr, *shift = nullptr;
};

// Computes the gradients of some members.
struct BackwardPass {
  const Ensemble& nets;
  const float* gradient;                        // ∂y (members, batch, out)
  const std::vector<Read>& reads;               // of every layer
  float* workspace;                             // `size` floats
  bool is_sparse;                               // leave out rows whose gradient is zero
  bool has_weights;                             // whether gradients of parameters are wanted
  std::vector<float*> input_gradients;          // where each member's gradient of x goes; empty if it is not wanted
  std::vector<std::vector<int64_t>> rows = {};  // for every member, the rows of the batch to compute
  std::vector<float*> gradients = {};           // the gradients of the outputs of every layer, before ReLU
  std::vector<float*> norm_sums = {};           // for every layer, the gradients of scale and shift by blocks of rows

  static int64_t size(const Ensemble& nets) {
    int64_t total = nets.batch;
    for (const Matrix& each : nets.weights) {
      total += nets.batch * (each.columns + 2 * COLUMNS) + (nets.is_wide() ? 0 : each.columns * (each.rows + COLUMNS));
      if (nets.form != Ensemble::PLAIN) total += 2 * each.rows * divide_up(nets.batch, ROWS);
    }
    return total;
  }

  float* take(int64_t floats) { return std::exchange(workspace, workspace + floats); }
  // The first layer whose input gradient is wanted.
  int64_t lowest() const { return input_gradients.empty() ? 1 : 0; }
  // Where the gradient of a layer's inputs goes.
  float* below(int64_t i) const { return i % nets.layers ? gradients[i - 1] : input_gradients[i / nets.layers]; }

  // Find the rows to compute, and divide the workspace among the gradients.
  void prepare() {
    rows.resize(nets.members);
    for (int64_t i = 0; i < nets.members * nets.batch; i++) {
      if (!is_sparse || gradient[i] != 0) rows[i / nets.batch].push_back(i % nets.batch);
    }
    for (int64_t i = 0; i < nets.members * nets.layers; i++) {
      const int64_t total = nets.batch * nets.weights[i].columns, member = i / nets.layers;
      gradients.push_back(nets.is_last(i % nets.layers) ? const_cast<float*>(gradient) + member * total : take(total));
      const bool has_sums = has_weights && nets.has_norm(i % nets.layers);
      norm_sums.push_back(has_sums ? take(2 * nets.weights[i].rows * divide_up(nets.batch, ROWS)) : nullptr);
    }
  }

  // Turn the gradients of a layer's inputs, of rows from `first` on, into those of the outputs of the layer below it.
  void through_norm(int64_t i, int64_t first, int64_t count, float* to, const int64_t* chosen) const {
    const int64_t layer = i % nets.layers, in = nets.weights[i].rows;
    if (!nets.has_norm(layer)) return;
    const float *before[ROWS], *statistics[ROWS];
    for (int64_t r = 0; r < count; r++) {
      before[r] = reads[i].before + chosen[r] * in;
      statistics[r] = reads[i].statistics + 2 * chosen[r];
    }
    normalise_gradient(count, in, to, before, statistics, reads[i].scale,
                       nets.opens_block(layer) ? gradients[i + 1] + first * in : nullptr,
                       norm_sums[i] ? norm_sums[i] + first / ROWS * 2 * in : nullptr);
  }

  // ∂x = ∂y Wᵀ, layer by layer, for layers whose weights do not fit the caches.
  void propagate_wide() const {
    for (int64_t i = nets.members * nets.layers - 1; i >= 0; i--) {
      const int64_t layer = i % nets.layers, in = nets.weights[i].rows;
      if (layer < lowest()) continue;
      float* to = below(i);
      if (nets.has_single_output(layer))
        blocks(1, nets.batch, [&](int64_t, int64_t first, int64_t count) {
          const float* mask[ROWS];
          for (int64_t r = 0; r < count; r++) mask[r] = reads[i].inputs + (first + r) * in;
          single_output_input_gradient(count, gradients[i] + first, nets.weights[i].data,
                                       nets.has_relu(layer) ? mask : nullptr, to + first * in, in);
        });
      else
        wide_layer_input_gradient(nets.batch, gradients[i], nets.weights[i],
                                  nets.has_relu(layer) ? reads[i].inputs : nullptr, to);
      if (nets.has_norm(layer))
        blocks(1, nets.batch, [&](int64_t, int64_t first, int64_t count) {
          through_norm(i, first, count, to + first * in, rows[i / nets.layers].data() + first);
        });
    }
  }

  // Return Wᵀ of every layer that needs it, in panels.
  std::vector<Right> transposed() {
    std::vector<Right> result;
    std::vector<std::pair<int64_t, int64_t>> panels;  // index of the matrix, and first column
    for (int64_t i = 0; i < nets.members * nets.layers; i++) {
      const auto [_, in, out] = nets.weights[i];
      result.push_back({take(out * divide_up(in, COLUMNS) * COLUMNS), COLUMNS, in, out});
      if (i % nets.layers < lowest() || nets.has_single_output(i % nets.layers)) continue;
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

  // ∂x = ∂y Wᵀ, block by block of rows through all layers. The gradients of the rows to compute are adjacent in memory.
  void propagate() {
    const std::vector<Right> rights = transposed();
    const int64_t outputs = nets.at(0, nets.layers - 1).columns;
    blocks(nets.members, nets.batch, [&](int64_t member, int64_t first, int64_t max_rows) {
      const int64_t count = std::min<int64_t>(max_rows, rows[member].size() - first);
      if (count <= 0) return;
      Left left = {gradients[nets.index(member, nets.layers - 1)] + first * outputs, outputs};
      for (int64_t layer = nets.layers - 1; layer >= lowest(); layer--) {
        const int64_t i = nets.index(member, layer), in = nets.weights[i].rows;
        float *to = below(i) + first * in, slope[ROWS];
        const float* mask[ROWS];
        for (int64_t r = 0; r < count; r++) {
          const int64_t row = rows[member][first + r];
          mask[r] = reads[i].inputs + row * in;
          if (nets.has_single_output(layer)) slope[r] = gradients[i][row];
        }
        const float* const* relu_mask = nets.has_relu(layer) ? mask : nullptr;
        if (nets.has_single_output(layer))
          single_output_input_gradient(count, slope, nets.weights[i].data, relu_mask, to, in);
        else
          strip<false>(count, left, rights[i], left.stride, {to, in, 0, nullptr, 0, NO_FLOOR, relu_mask});
        through_norm(i, first, count, to, rows[member].data() + first);
        left = {to, in};
      }
    });
  }

  // Add the members' gradients of x to the result.
  void sum_input_gradients(float* result) const {
    const int64_t in = nets.at(0, 0).rows;
    for (int64_t member = 0; member < nets.members; member++) {
      const float* from = input_gradients[member];
      for (const int64_t row : rows[member]) {
        for (int64_t k = 0; k < in; k++) result[row * in + k] += *from++;
      }
    }
  }

  // Write the gradients of the parameters of every layer.
  void weight_gradients(const std::vector<Written>& to) {
    float* ones = take(nets.batch);
    std::fill_n(ones, nets.batch, 1.0f);
    std::vector<WeightGradient> layers;
    std::vector<std::pair<int64_t, int64_t>> tasks;  // index of the layer, and its task
    for (size_t i = 0; i < to.size(); i++) {
      const Matrix x = {reads[i].inputs, nets.batch, nets.weights[i].rows};
      const Matrix y_gradient = {gradients[i], nets.batch, nets.weights[i].columns};
      const Right right = make_right(y_gradient.columns == 1 ? x : y_gradient, workspace);
      layers.push_back({x, y_gradient, right, to[i].weights, to[i].bias});
      for (int64_t task = 0; task < layers[i].tasks(); task++) tasks.emplace_back(i, task);
      if (norm_sums[i]) tasks.emplace_back(i, layers[i].tasks());
    }
    parallel(tasks.size(), [&](int64_t index) {
      const auto [i, task] = tasks[index];
      task < layers[i].tasks() ? layers[i].compute(task, ones) : norm_gradients(i, to[i]);
    });
  }

  // Add the gradients of scale and shift over all blocks of rows.
  void norm_gradients(int64_t i, const Written& to) const {
    const int64_t in = nets.weights[i].rows;
    const float* from = norm_sums[i];
    std::copy_n(from, in, to.scale);
    std::copy_n(from + in, in, to.shift);
    for (int64_t block = 1; block < divide_up(nets.batch, ROWS); block++) {
      from += 2 * in;
      for (int64_t k = 0; k < in; k++) to.scale[k] += from[k], to.shift[k] += from[in + k];
    }
  }
};

}  // namespace

// Arguments: ∂y (members, batch, out), x (batch, in), what `smrl_mlp` kept of every layer but the first of every member,
// and W of every layer of every member, each followed by scale if its inputs were normalised. Results: with `inputs` ∂x,
// summed over the members, and with `weights` ∂W and ∂b of every layer of every member, each followed by the gradients
// of scale and shift.
KERNEL(smrl_mlp_backward) {
  const Array<float> gradient = call.argument(0, {ANY, ANY, ANY});
  const bool has_inputs = call.integer("inputs"), has_weights = call.integer("weights");
  const Architecture form = Architecture::of(call);
  const int64_t members = gradient.dims[0], batch = gradient.dims[1], layers = form.layers;
  const int64_t norms = form.norms(layers), kept = layers - 1 + 2 * norms, read = layers + norms;
  const Array<float> x = call.argument(1, {batch, ANY});
  call.require_counts(2 + members * (kept + read), has_inputs + (has_weights ? 2 * members * read : 0));
  float* x_gradient = has_inputs ? call.result(0, {batch, x.dims[1]}).data : nullptr;
  if (has_inputs && members > 1) std::fill_n(x_gradient, x.size(), 0.0f);
  for (int64_t first = 0; first < members; first += GROUP) {
    Ensemble nets = {form, std::min(GROUP, members - first), batch};
    std::vector<Read> reads;
    std::vector<Written> results;
    int64_t hidden = 2 + first * kept, parameter = 2 + members * kept + first * read;
    int64_t result = has_inputs + 2 * first * read;
    for (int64_t i = 0; i < nets.members * layers; i++) {
      const int64_t layer = i % layers, in = layer ? nets.weights.back().columns : x.dims[1];
      Read each = {layer ? call.argument(hidden++, {batch, in}).data : x.data};
      nets.add(call.argument(parameter++, {in, nets.is_last(layer) ? gradient.dims[2] : ANY}));
      const int64_t out = nets.weights.back().columns;
      if (nets.has_norm(layer)) {
        each.before = call.argument(hidden++, {batch, in}).data;
        each.statistics = call.argument(hidden++, {batch, 2}).data;
        each.scale = call.argument(parameter++, {in}).data;
      }
      reads.push_back(each);
      if (!has_weights) continue;
      Written to = {call.result(result, {in, out}).data, call.result(result + 1, {out}).data};
      result += 2;
      if (nets.has_norm(layer)) {
        to.scale = call.result(result, {in}).data, to.shift = call.result(result + 1, {in}).data;
        result += 2;
      }
      results.push_back(to);
    }
    // If an actor learns from the smallest of several critics, most rows of each critic have no gradient.
    const bool is_sparse = members > 1 && !has_weights && !nets.is_wide() && nets.has_single_output(layers - 1);
    float* workspace = shared(members, BackwardPass::size(nets) + (members > 1 ? nets.members * x.size() : 0));
    std::vector<float*> input_gradients;
    for (int64_t member = 0; has_inputs && member < nets.members; member++) {
      input_gradients.push_back(members > 1 ? workspace : x_gradient);
      if (members > 1) workspace += x.size();
    }
    const float* y_gradient = gradient.data + first * batch * gradient.dims[2];
    BackwardPass pass = {nets, y_gradient, reads, workspace, is_sparse, has_weights, input_gradients};
    pass.prepare();
    nets.is_wide() ? pass.propagate_wide() : pass.propagate();
    if (has_inputs && members > 1) pass.sum_input_gradients(x_gradient);
    if (has_weights) pass.weight_gradients(results);
  }
}

}  // namespace smrl
