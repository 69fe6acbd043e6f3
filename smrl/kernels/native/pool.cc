#include "pool.h"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cfenv>
#include <chrono>
#include <cstdlib>
#include <exception>
#include <mutex>
#include <new>
#include <stdexcept>
#include <system_error>
#include <thread>
#include <utility>

#include "call.h"

#if defined(__linux__)
#include <sched.h>
#endif

namespace smrl {
namespace {

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

std::chrono::microseconds spin_time;  // how long a thread spins before it sleeps

// Spin until the condition is true; return false on time-out.
template <class Condition>
bool spin_until(Condition is_true) {
  const auto end = std::chrono::steady_clock::now() + spin_time;
  for (int i = 1; !is_true(); i++) {
    cpu_relax();
    if (i % 64 == 0 && std::chrono::steady_clock::now() > end) return false;
  }
  return true;
}

const std::function<void(int64_t)>* job;
std::fenv_t job_mode;            // the caller's floating-point mode: XLA flushes subnormal numbers to zero
std::exception_ptr job_failure;  // the first exception of a task
std::atomic<bool> job_has_failed;
TaskRange ranges[MAX_THREADS];
std::atomic<int64_t> job_state;  // 1 while a job is open, plus 2 for every helper that works on it
std::atomic<uint32_t> job_count;
std::mutex pool_mutex;
int helpers;  // threads of the pool, without the caller
pid_t owner;  // the process that has these threads: they do not exist in a fork of it

thread_local bool is_in_task = false;
struct TaskScope {
  TaskScope() { is_in_task = true; }
  ~TaskScope() { is_in_task = false; }
};

// Run the tasks of a thread's range, and then what is left of the other ranges, up to the first exception.
void run_tasks(int thread) noexcept {
  const TaskScope scope;
  try {
    for (int k = 0; k <= helpers; k++) {
      TaskRange& range = ranges[(thread + k) % (helpers + 1)];
      for (int64_t i; (i = range.next.fetch_add(1, std::memory_order_relaxed)) < range.end;) (*job)(i);
    }
  } catch (...) {
    if (!job_has_failed.exchange(true)) job_failure = std::current_exception();
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
    std::fesetenv(&job_mode);
    run_tasks(thread);
    if (job_state.fetch_sub(2, std::memory_order_acq_rel) == 2) job_state.notify_one();
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

void parallel(int64_t count, const std::function<void(int64_t)>& task) {
  if (is_in_task) throw std::logic_error("a task calls parallel()");
  // XLA may run a second kernel at the same time on another thread; that one does not use the pool.
  std::unique_lock lock(pool_mutex, std::defer_lock);
  if (count == 1 || helpers == 0 || getpid() != owner || !lock.try_lock()) {
    const TaskScope scope;
    for (int64_t i = 0; i < count; i++) task(i);
    return;
  }
  avoid_core_of_caller();
  job = &task;
  std::fegetenv(&job_mode);
  for (int thread = 0; thread <= helpers; thread++) {
    ranges[thread].next.store(count * thread / (helpers + 1), std::memory_order_relaxed);
    ranges[thread].end = count * (thread + 1) / (helpers + 1);
  }
  job_state.store(1, std::memory_order_release);
  job_count.fetch_add(1, std::memory_order_release);
  job_count.notify_all();
  run_tasks(0);
  job_state.fetch_and(~int64_t{1}, std::memory_order_acq_rel);
  if (!spin_until([] { return job_state.load(std::memory_order_acquire) == 0; })) {
    for (int64_t state; (state = job_state.load(std::memory_order_acquire)) != 0;)
      job_state.wait(state, std::memory_order_acquire);
  }
  if (job_has_failed.exchange(false)) std::rethrow_exception(std::exchange(job_failure, nullptr));
}

float* scratch(int slot, int64_t floats) {
  struct Memory {
    float* start = nullptr;
    int64_t size = 0;
    ~Memory() { std::free(start); }
  };
  thread_local Memory memories[7];
  Memory& memory = memories[slot];
  if (memory.size < floats) {
    std::free(memory.start);
    memory.size = (floats + 1023) / 1024 * 1024;
    memory.start = static_cast<float*>(std::aligned_alloc(64, 4 * memory.size));
    if (!memory.start) {
      memory.size = 0;
      throw std::bad_alloc();
    }
  }
  return memory.start;
}

}  // namespace smrl

// Let kernels use `count` threads, up to MAX_THREADS, or fewer if the system refuses to start them. They spin for a
// while before they sleep. Threads are never stopped.
EXPORTED void smrl_threads(int count, int spin_microseconds) {
  using namespace smrl;
  if (helpers > 0 && getpid() != owner) return;
  std::lock_guard lock(pool_mutex);
  owner = getpid();
  spin_time = std::chrono::microseconds(spin_microseconds);
#if defined(__linux__)
  sched_getaffinity(0, sizeof allowed, &allowed);
#endif
  try {
    while (helpers < std::min(count, MAX_THREADS) - 1) {
      std::thread helper(run_helper, helpers + 1);
      helpers++;
#if defined(__linux__)
      threads[helpers] = helper.native_handle();
#endif
      helper.detach();
    }
  } catch (const std::system_error&) {
  }
}
