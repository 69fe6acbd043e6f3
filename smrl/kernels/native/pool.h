// A pool of threads that share the tasks of one kernel.
#pragma once

#include <cstdint>
#include <functional>

namespace smrl {

// Call task(0), …, task(count - 1), each once and in any order, on this thread and on idle threads of the pool.
//
// All of them run in the floating-point mode of this thread. If tasks throw, other tasks may be left out, and the first
// exception is thrown here. A task must not call `parallel`.
void parallel(int64_t count, const std::function<void(int64_t)>& task);

// Return memory of this thread, aligned for vectors. The next call with the same slot reuses it.
float* scratch(int slot, int64_t floats);

}  // namespace smrl
