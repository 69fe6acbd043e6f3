// A pool of threads that share the tasks of one kernel.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <functional>

// Call task(0), …, task(count - 1), each once and in any order, on this thread and on idle threads of the pool.
void parallel(int64_t count, const std::function<void(int64_t)>& task);

// Return memory of this thread, aligned for vectors. The next call with the same slot reuses it.
float* scratch(int slot, int64_t floats);
