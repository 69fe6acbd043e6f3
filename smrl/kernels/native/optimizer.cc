// Steps on the parameters of a network, each in one pass over all of its arrays.
#include <algorithm>
#include <cmath>
#include <vector>

#include "call.h"
#include "pool.h"

namespace {

// Call body(array, first, end) in parallel for pieces of the arrays that fit the caches.
template <class Body>
void for_pieces(const Call& call, int64_t first_argument, int64_t arrays, Body body) {
  constexpr int64_t MAX_SIZE = 8192;
  struct Piece {
    int64_t array, first, end;
  };
  std::vector<Piece> all;
  for (int64_t array = 0; array < arrays; array++) {
    const int64_t size = call.argument(first_argument + array).size();
    for (int64_t first = 0; first < size; first += MAX_SIZE)
      all.push_back({array, first, std::min(first + MAX_SIZE, size)});
  }
  parallel(all.size(), [&](int64_t i) { body(all[i].array, all[i].first, all[i].end); });
}

}  // namespace

// Adam: m ← β₁ m + (1 − β₁) g, v ← β₂ v + (1 − β₂) g², θ ← θ − η f m / (√v h + ε), with f = 1 / (1 − β₁ⁿ) and
// h = √(1 / (1 − β₂ⁿ)). Arguments: (f, h), all g, all m, all v and all θ. Results: all m, all v and all θ.
KERNEL(smrl_adam) {
  const int64_t arrays = (call.arguments() - 1) / 4;
  const float beta1 = call.attribute<double>("beta1"), rest1 = 1 - call.attribute<double>("beta1");
  const float beta2 = call.attribute<double>("beta2"), rest2 = 1 - call.attribute<double>("beta2");
  const float epsilon = call.attribute<double>("epsilon"), rate = call.attribute<double>("rate");
  const float scale = call.argument(0).data[0], root = call.argument(0).data[1];
  for_pieces(call, 1, arrays, [&](int64_t array, int64_t first, int64_t end) {
    const float* g = call.argument(1 + array).data;
    const float* m = call.argument(1 + arrays + array).data;
    const float* v = call.argument(1 + 2 * arrays + array).data;
    const float* theta = call.argument(1 + 3 * arrays + array).data;
    float *new_m = call.result(array).data, *new_v = call.result(arrays + array).data;
    float* new_theta = call.result(2 * arrays + array).data;
#pragma GCC ivdep  // a result may have the same address as its argument
    for (int64_t i = first; i < end; i++) {
      const float mean = beta1 * m[i] + rest1 * g[i], square = beta2 * v[i] + rest2 * (g[i] * g[i]);
      new_m[i] = mean;
      new_v[i] = square;
      new_theta[i] = theta[i] - rate * (mean * scale / (std::sqrt(square) * root + epsilon));
    }
  });
}

// Soft update of a target network: θ′ ← τ θ + (1 − τ) θ′. Arguments: all θ′ and all θ. Results: all θ′.
KERNEL(smrl_polyak) {
  const int64_t arrays = call.arguments() / 2;
  const float tau = call.attribute<double>("tau"), rest = 1 - call.attribute<double>("tau");
  for_pieces(call, 0, arrays, [&](int64_t array, int64_t first, int64_t end) {
    const float *old = call.argument(array).data, *online = call.argument(arrays + array).data;
    float* result = call.result(array).data;
#pragma GCC ivdep
    for (int64_t i = first; i < end; i++) result[i] = tau * online[i] + rest * old[i];
  });
}
