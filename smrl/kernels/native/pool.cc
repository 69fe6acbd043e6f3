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

// A thread that found nothing to do keeps looking for so long before it sleeps: longer than an environment's step takes,
// for to wake it takes as long as a product.
constexpr auto PATIENCE = std::chrono::microseconds(500);
constexpr int MOST = 8;  // threads: a layer of 256 units is 16 tasks, and waking threads takes time

inline void rest() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

// Neighbouring tasks, of which one thread takes the next until there are none left. The same thread begins with the same
// part of every job, so that what one kernel wrote the next one finds in the caches of the core that needs it.
struct alignas(128) Part {
  std::atomic<int64_t> next;
  int64_t end;
};

// Whether the condition comes true while there is patience.
template <class Condition>
bool comes(Condition is_true) {
  const auto end = std::chrono::steady_clock::now() + PATIENCE;
  for (int i = 1; !is_true(); i++) {
    rest();
    if (i % 64 == 0 && std::chrono::steady_clock::now() > end) return false;
  }
  return true;
}

const std::function<void(int64_t)>* job;
Part parts[MOST];
std::atomic<int64_t> gate;  // 1 while a job is open, plus 2 for every thread of the pool that takes part
std::atomic<uint32_t> signal_count;
std::mutex busy;
int helpers;

// Do a thread's part, and then what is left of the others'.
void work(int thread) {
  for (int k = 0; k <= helpers; k++) {
    Part& part = parts[(thread + k) % (helpers + 1)];
    for (int64_t i; (i = part.next.fetch_add(1, std::memory_order_relaxed)) < part.end;) (*job)(i);
  }
}

void help(int thread) {
  for (uint32_t seen = 0;;) {
    if (!comes([&] { return signal_count.load(std::memory_order_acquire) != seen; }))
      signal_count.wait(seen, std::memory_order_acquire);
    seen = signal_count.load(std::memory_order_acquire);
    int64_t state = gate.load(std::memory_order_acquire);
    while ((state & 1) && !gate.compare_exchange_weak(state, state + 2, std::memory_order_acq_rel)) {
    }
    if (!(state & 1)) continue;
    work(thread);
    gate.fetch_sub(2, std::memory_order_acq_rel);
  }
}

#if defined(__linux__)
cpu_set_t allowed;
pthread_t threads[MOST];
int core = -1;  // where the caller was last

// Keep the pool's threads off the core of the caller. The scheduler leaves two threads on one core for milliseconds.
void spread() {
  const int here = sched_getcpu();
  if (here == core || here < 0 || CPU_COUNT(&allowed) < 2) return;
  core = here;
  cpu_set_t others = allowed;
  CPU_CLR(here, &others);
  for (int thread = 1; thread <= helpers; thread++) pthread_setaffinity_np(threads[thread], sizeof others, &others);
}
#else
void spread() {}
#endif

}  // namespace

// Let kernels compute on so many threads, but not more than their tasks are worth; threads are never stopped.
extern "C" void smrl_threads(int count) {
  std::lock_guard lock(busy);
#if defined(__linux__)
  sched_getaffinity(0, sizeof allowed, &allowed);
#endif
  while (helpers < std::min(count, MOST) - 1) {
    std::thread helper(help, ++helpers);
#if defined(__linux__)
    threads[helpers] = helper.native_handle();
#endif
    helper.detach();
  }
}

void parallel(int64_t count, const std::function<void(int64_t)>& task) {
  // A second kernel at the same time, which XLA may start on a thread of its own, does without the pool.
  std::unique_lock lock(busy, std::defer_lock);
  if (count == 1 || helpers == 0 || !lock.try_lock()) {
    for (int64_t i = 0; i < count; i++) task(i);
    return;
  }
  spread();
  job = &task;
  for (int thread = 0; thread <= helpers; thread++) {
    parts[thread].next.store(count * thread / (helpers + 1), std::memory_order_relaxed);
    parts[thread].end = count * (thread + 1) / (helpers + 1);
  }
  gate.store(1, std::memory_order_release);
  signal_count.fetch_add(1, std::memory_order_release);
  signal_count.notify_all();
  work(0);
  gate.fetch_and(~int64_t{1}, std::memory_order_acq_rel);
  while (!comes([] { return gate.load(std::memory_order_acquire) == 0; })) std::this_thread::yield();
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
