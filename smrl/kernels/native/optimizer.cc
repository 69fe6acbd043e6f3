// Steps on the parameters of a network, each in one pass over all of its arrays.
#include <algorithm>
#include <cmath>
#include <vector>

#include "call.h"
#include "pool.h"

namespace smrl {
namespace {

// Call body(array, first, end) in parallel for pieces of the arrays that fit the caches.
template <class Array, class Body>
void for_pieces(const std::vector<Array>& arrays, Body body) {
  constexpr int64_t MAX_SIZE = 8192;
  struct Piece {
    const Array& array;
    int64_t first, end;
  };
  std::vector<Piece> all;
  for (const Array& array : arrays) {
    for (int64_t first = 0; first < array.size; first += MAX_SIZE)
      all.push_back({array, first, std::min(first + MAX_SIZE, array.size)});
  }
  parallel(all.size(), [&](int64_t i) { body(all[i].array, all[i].first, all[i].end); });
}

// Return the numbers of an array, which must have this size.
float* sized(const Array<float>& array, int64_t size) {
  require(array.size() == size, "arrays of one parameter differ in their sizes");
  return array.data;
}

}  // namespace

// Adam: m ← β₁ m + (1 − β₁) g, v ← β₂ v + (1 − β₂) g², θ ← θ − η (f m / (√v h + ε) + λ θ), with f = 1 / (1 − β₁ⁿ),
// h = √(1 / (1 − β₂ⁿ)) and the decay λ. Arguments: (f, h), all g, all m, all v and all θ. Results: all m, all v and all θ.
KERNEL(smrl_adam) {
  const int64_t count = call.results() / 3;
  call.require_counts(1 + 4 * count, 3 * count);
  const float beta1 = call.number("beta1"), rest1 = 1 - call.number("beta1");
  const float beta2 = call.number("beta2"), rest2 = 1 - call.number("beta2");
  const float epsilon = call.number("epsilon"), rate = call.number("rate"), decay = call.number("decay");
  const Array<float> factors = call.argument(0, {2});
  const float scale = factors.data[0], root = factors.data[1];
  struct Parameter {
    const float *g, *m, *v, *theta;
    float *new_m, *new_v, *new_theta;
    int64_t size;
  };
  std::vector<Parameter> parameters;
  for (int64_t i = 0; i < count; i++) {
    const int64_t size = call.argument(1 + i).size();
    const auto argument = [&](int64_t kind) { return sized(call.argument(1 + kind * count + i), size); };
    const auto result = [&](int64_t kind) { return sized(call.result(kind * count + i), size); };
    parameters.push_back({argument(0), argument(1), argument(2), argument(3), result(0), result(1), result(2), size});
  }
  for_pieces(parameters, [&](const Parameter& each, int64_t first, int64_t end) {
    const auto [g, m, v, theta, new_m, new_v, new_theta, _] = each;
#pragma GCC ivdep  // a result may have the same address as its argument
    for (int64_t i = first; i < end; i++) {
      const float mean = beta1 * m[i] + rest1 * g[i], square = beta2 * v[i] + rest2 * (g[i] * g[i]);
      new_m[i] = mean;
      new_v[i] = square;
      new_theta[i] = theta[i] - rate * (mean * scale / (std::sqrt(square) * root + epsilon) + decay * theta[i]);
    }
  });
}

// Projection to unit norm: every column of every matrix is divided by its norm, unless that is 0. Arguments: all
// matrices. Results: the same.
KERNEL(smrl_project) {
  constexpr int64_t CHUNK = 128;  // columns of a task
  const int64_t count = call.results();
  call.require_counts(count, count);
  struct Task {
    const float* from;
    float* to;
    int64_t rows, stride, columns;
  };
  std::vector<Task> tasks;
  for (int64_t i = 0; i < count; i++) {
    const Array<float> from = call.argument(i, {ANY, ANY});
    const int64_t rows = from.dims[0], columns = from.dims[1];
    const Array<float> to = call.result(i, {rows, columns});
    for (int64_t j = 0; j < columns; j += CHUNK)
      tasks.push_back({from.data + j, to.data + j, rows, columns, std::min(CHUNK, columns - j)});
  }
  parallel(tasks.size(), [&](int64_t task) {
    const auto [from, to, rows, stride, columns] = tasks[task];
    float factors[CHUNK] = {};
    for (int64_t i = 0; i < rows; i++) {
      for (int64_t j = 0; j < columns; j++) factors[j] += from[i * stride + j] * from[i * stride + j];
    }
    for (int64_t j = 0; j < columns; j++) factors[j] = factors[j] > 0 ? 1 / std::sqrt(factors[j]) : 1;
    for (int64_t i = 0; i < rows; i++) {
#pragma GCC ivdep  // a result may have the same address as its argument
      for (int64_t j = 0; j < columns; j++) to[i * stride + j] = from[i * stride + j] * factors[j];
    }
  });
}

// Soft update of a target network: θ′ ← τ θ + (1 − τ) θ′. Arguments: all θ′ and all θ. Results: all θ′.
KERNEL(smrl_polyak) {
  const int64_t count = call.results();
  call.require_counts(2 * count, count);
  const float tau = call.number("tau"), rest = 1 - call.number("tau");
  struct Parameter {
    const float *old, *online;
    float* result;
    int64_t size;
  };
  std::vector<Parameter> parameters;
  for (int64_t i = 0; i < count; i++) {
    const Array<float> old = call.argument(i);
    const int64_t size = old.size();
    parameters.push_back({old.data, sized(call.argument(count + i), size), sized(call.result(i), size), size});
  }
  for_pieces(parameters, [&](const Parameter& each, int64_t first, int64_t end) {
    const auto [old, online, result, _] = each;
#pragma GCC ivdep
    for (int64_t i = first; i < end; i++) result[i] = tau * online[i] + rest * old[i];
  });
}

}  // namespace smrl
