#include "pool.h"

#include <algorithm>
#include <atomic>
#include <memory>
#include <mutex>
#include <thread>

namespace {

// A thread that found nothing to do looks again this often before it sleeps, for waking it takes longer than a product.
constexpr int PATIENCE = 5000;
constexpr int MOST = 8;  // threads: a layer of 256 units is 16 tasks, and waking threads takes time

inline void rest() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

const std::function<void(int64_t)>* job;
int64_t tasks;
std::atomic<int64_t> next_task;
std::atomic<int64_t> gate;  // 1 while a job is open, plus 2 for every thread of the pool that takes part
std::atomic<uint32_t> signal_count;
std::mutex busy;
int helpers;

void work() {
  for (int64_t i; (i = next_task.fetch_add(1, std::memory_order_relaxed)) < tasks;) (*job)(i);
}

void help() {
  for (uint32_t seen = 0;;) {
    for (int i = 0; i < PATIENCE && signal_count.load(std::memory_order_acquire) == seen; i++) rest();
    signal_count.wait(seen, std::memory_order_acquire);
    seen = signal_count.load(std::memory_order_acquire);
    int64_t state = gate.load(std::memory_order_acquire);
    while ((state & 1) && !gate.compare_exchange_weak(state, state + 2, std::memory_order_acq_rel)) {
    }
    if (!(state & 1)) continue;
    work();
    gate.fetch_sub(2, std::memory_order_acq_rel);
  }
}

}  // namespace

// Let kernels compute on so many threads, but not more than their tasks are worth; threads are never stopped.
extern "C" void smrl_threads(int count) {
  std::lock_guard lock(busy);
  for (; helpers < std::min(count, MOST) - 1; helpers++) std::thread(help).detach();
}

void parallel(int64_t count, const std::function<void(int64_t)>& task) {
  // A second kernel at the same time, which XLA may start on a thread of its own, does without the pool.
  std::unique_lock lock(busy, std::defer_lock);
  if (count == 1 || helpers == 0 || !lock.try_lock()) {
    for (int64_t i = 0; i < count; i++) task(i);
    return;
  }
  job = &task;
  tasks = count;
  next_task.store(0, std::memory_order_relaxed);
  gate.store(1, std::memory_order_release);
  signal_count.fetch_add(1, std::memory_order_release);
  signal_count.notify_all();
  work();
  gate.fetch_and(~int64_t{1}, std::memory_order_acq_rel);
  for (int i = 0; gate.load(std::memory_order_acquire) != 0; i++) i < PATIENCE ? rest() : std::this_thread::yield();
}

float* scratch(int slot, int64_t floats) {
  struct Memory {
    float* start = nullptr;
    int64_t size = 0;
    ~Memory() { std::free(start); }
  };
  thread_local Memory memories[4];
  Memory& memory = memories[slot];
  if (memory.size < floats) {
    std::free(memory.start);
    memory.size = (floats + 1023) / 1024 * 1024;
    memory.start = static_cast<float*>(std::aligned_alloc(64, 4 * memory.size));
  }
  return memory.start;
}
