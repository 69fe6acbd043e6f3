#include "pool.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <memory>
#include <mutex>
#include <thread>

#if defined(__linux__)
#include <sched.h>
#endif

namespace {

// Spin this long before sleeping, which is longer than an environment step: waking a thread costs about one GEMM.
constexpr auto SPIN_TIME = std::chrono::microseconds(500);
constexpr int MAX_THREADS = 8;  // more do not pay off: a layer of 256 units has only 16 tasks

inline void cpu_relax() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

// Adjacent tasks of a job. Each thread begins with the same range in every job, so that it finds in its core's cache
// what the previous kernel wrote. Then it takes tasks from the ranges of the others.
struct alignas(128) TaskRange {
  std::atomic<int64_t> next;
  int64_t end;
};

// Spin until the condition is true; return false on time-out.
template <class Condition>
bool spin_until(Condition is_true) {
  const auto end = std::chrono::steady_clock::now() + SPIN_TIME;
  for (int i = 1; !is_true(); i++) {
    cpu_relax();
    if (i % 64 == 0 && std::chrono::steady_clock::now() > end) return false;
  }
  return true;
}

const std::function<void(int64_t)>* job;
TaskRange ranges[MAX_THREADS];
std::atomic<int64_t> job_state;  // 1 while a job is open, plus 2 for every helper that works on it
std::atomic<uint32_t> job_count;
std::mutex pool_mutex;
int helpers;  // threads of the pool, without the caller

// Run the tasks of a thread's range, and then what is left of the other ranges.
void run_tasks(int thread) {
  for (int k = 0; k <= helpers; k++) {
    TaskRange& range = ranges[(thread + k) % (helpers + 1)];
    for (int64_t i; (i = range.next.fetch_add(1, std::memory_order_relaxed)) < range.end;) (*job)(i);
  }
}

void run_helper(int thread) {
  for (uint32_t seen = 0;;) {
    if (!spin_until([&] { return job_count.load(std::memory_order_acquire) != seen; }))
      job_count.wait(seen, std::memory_order_acquire);
    seen = job_count.load(std::memory_order_acquire);
    int64_t state = job_state.load(std::memory_order_acquire);
    while ((state & 1) && !job_state.compare_exchange_weak(state, state + 2, std::memory_order_acq_rel)) {
    }
    if (!(state & 1)) continue;
    run_tasks(thread);
    job_state.fetch_sub(2, std::memory_order_acq_rel);
  }
}

#if defined(__linux__)
cpu_set_t allowed;
pthread_t threads[MAX_THREADS];
int core = -1;  // the caller's core in the last job

// Keep the helpers off the caller's core, because the scheduler can leave two threads on one core for milliseconds.
void avoid_core_of_caller() {
  const int here = sched_getcpu();
  if (here == core || here < 0 || CPU_COUNT(&allowed) < 2) return;
  core = here;
  cpu_set_t others = allowed;
  CPU_CLR(here, &others);
  for (int thread = 1; thread <= helpers; thread++) pthread_setaffinity_np(threads[thread], sizeof others, &others);
}
#else
void avoid_core_of_caller() {}
#endif

}  // namespace

// Let kernels use `count` threads, up to MAX_THREADS. Threads are never stopped.
extern "C" void smrl_threads(int count) {
  std::lock_guard lock(pool_mutex);
#if defined(__linux__)
  sched_getaffinity(0, sizeof allowed, &allowed);
#endif
  while (helpers < std::min(count, MAX_THREADS) - 1) {
    std::thread helper(run_helper, ++helpers);
#if defined(__linux__)
    threads[helpers] = helper.native_handle();
#endif
    helper.detach();
  }
}

void parallel(int64_t count, const std::function<void(int64_t)>& task) {
  // XLA may run a second kernel at the same time on another thread; that one does not use the pool.
  std::unique_lock lock(pool_mutex, std::defer_lock);
  if (count == 1 || helpers == 0 || !lock.try_lock()) {
    for (int64_t i = 0; i < count; i++) task(i);
    return;
  }
  avoid_core_of_caller();
  job = &task;
  for (int thread = 0; thread <= helpers; thread++) {
    ranges[thread].next.store(count * thread / (helpers + 1), std::memory_order_relaxed);
    ranges[thread].end = count * (thread + 1) / (helpers + 1);
  }
  job_state.store(1, std::memory_order_release);
  job_count.fetch_add(1, std::memory_order_release);
  job_count.notify_all();
  run_tasks(0);
  job_state.fetch_and(~int64_t{1}, std::memory_order_acq_rel);
  while (!spin_until([] { return job_state.load(std::memory_order_acquire) == 0; })) std::this_thread::yield();
}

float* scratch(int slot, int64_t floats) {
  struct Memory {
    float* start = nullptr;
    int64_t size = 0;
    ~Memory() { std::free(start); }
  };
  thread_local Memory memories[6];
  Memory& memory = memories[slot];
  if (memory.size < floats) {
    std::free(memory.start);
    memory.size = (floats + 1023) / 1024 * 1024;
    memory.start = static_cast<float*>(std::aligned_alloc(64, 4 * memory.size));
  }
  return memory.start;
}
