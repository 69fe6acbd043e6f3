// A pool of threads that share the tasks of one kernel.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <functional>

// Call task(0), …, task(count - 1), each once and in any order, on this thread and on idle ones of the pool.
void parallel(int64_t count, const std::function<void(int64_t)>& task);

// Memory of this thread that its next call with the same slot reuses; aligned for vectors.
float* scratch(int slot, int64_t floats);
