// Tests of the pool of threads, as a program that also runs under sanitizers. It exits with 0 if all of them pass.
#include <sched.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <new>
#include <stdexcept>
#include <thread>
#include <vector>

#include "pool.h"

extern "C" void smrl_threads(int count, int spin_microseconds);

using smrl::parallel;

namespace {

constexpr int THREADS = 3;

void check(bool condition, const char* what) {
  if (condition) return;
  std::fprintf(stderr, "failed: %s\n", what);
  std::_Exit(1);
}

// Run one task on every thread at the same time.
template <class Body>
void on_all_threads(Body body) {
  std::atomic<int> started = 0;
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  parallel(THREADS, [&](int64_t i) {
    started++;
    while (started < THREADS && std::chrono::steady_clock::now() < end) std::this_thread::yield();
    body(i);
  });
  check(started == THREADS, "every thread takes part");
}

int64_t sum(int64_t count) {
  std::vector<int64_t> values(count);
  parallel(count, [&](int64_t i) { values[i] = i; });
  int64_t total = 0;
  for (const int64_t value : values) total += value;
  return total;
}

void tasks_run_once() {
  for (const int64_t count : {0, 1, 2, 3, 7, 1000}) check(sum(count) == count * (count - 1) / 2, "each task runs once");
  for (int64_t i = 0; i < 2000; i++) check(sum(5) == 10, "each task of many jobs runs once");
}

void exceptions_reach_the_caller() {
  for (int64_t thrower = 0; thrower < THREADS; thrower++) {
    bool caught = false;
    try {
      on_all_threads([&](int64_t i) {
        if (i == thrower) throw std::runtime_error("broken");
      });
    } catch (const std::runtime_error&) {
      caught = true;
    }
    check(caught, "an exception of a task reaches the caller");
    check(sum(100) == 4950, "the pool works after an exception");
  }
}

void memory_that_is_not_there_is_an_exception() {
  bool caught = false;
  try {
    on_all_threads([](int64_t) { smrl::scratch(0, int64_t{1} << 50); });
  } catch (const std::bad_alloc&) {
    caught = true;
  }
  check(caught, "memory that is not there is an exception");
  smrl::scratch(0, 10)[9] = 1;
}

void tasks_must_not_call_parallel() {
  for (const int64_t count : {1, THREADS}) {
    bool caught = false;
    try {
      parallel(count, [](int64_t) { parallel(2, [](int64_t) {}); });
    } catch (const std::logic_error&) {
      caught = true;
    }
    check(caught, "a task that calls parallel() is refused");
  }
  check(sum(100) == 4950, "the pool works after that");
}

#if defined(__x86_64__)
void helpers_flush_subnormal_numbers_as_the_caller_does() {
  constexpr unsigned FLUSH = 0x8040;  // both of results and of arguments
  const unsigned before = __builtin_ia32_stmxcsr();
  for (const bool flush : {true, false}) {
    __builtin_ia32_ldmxcsr(flush ? before | FLUSH : before & ~FLUSH);
    volatile float small = 1e-42f, results[THREADS];
    on_all_threads([&](int64_t i) { results[i] = small * 0.5f; });
    __builtin_ia32_ldmxcsr(before & ~FLUSH);  // flushed arguments of == would be zero, too
    for (const volatile float& result : results) check((result == 0) == flush, "all threads flush, or none");
  }
  __builtin_ia32_ldmxcsr(before);
}
#else
void helpers_flush_subnormal_numbers_as_the_caller_does() {}
#endif

#if defined(__linux__)
cpu_set_t move_to(int core) {
  cpu_set_t only;
  CPU_ZERO(&only);
  CPU_SET(core, &only);
  sched_setaffinity(0, sizeof only, &only);
  return only;
}

// A fork has the pool's variables but not its threads. Keeping them off its core would move itself to another one.
void a_fork_computes_alone() {
  cpu_set_t allowed;
  sched_getaffinity(0, sizeof allowed, &allowed);
  int first = 0, last = CPU_SETSIZE - 1;
  while (!CPU_ISSET(first, &allowed)) first++;
  while (!CPU_ISSET(last, &allowed)) last--;
  move_to(first);
  sum(100);
  const pid_t child = fork();
  if (child == 0) {
    const cpu_set_t before = move_to(last);
    const bool is_right = sum(100) == 4950;
    cpu_set_t after;
    sched_getaffinity(0, sizeof after, &after);
    std::_Exit(is_right && CPU_EQUAL(&before, &after) ? 0 : 1);
  }
  int status = 1;
  check(waitpid(child, &status, 0) == child && status == 0, "a forked process computes alone");
  sched_setaffinity(0, sizeof allowed, &allowed);
}
#else
void a_fork_computes_alone() {}
#endif

}  // namespace

int main(int, char** words) {
  smrl_threads(THREADS, std::atoi(words[1]));
  tasks_run_once();
  exceptions_reach_the_caller();
  memory_that_is_not_there_is_an_exception();
  tasks_must_not_call_parallel();
  helpers_flush_subnormal_numbers_as_the_caller_does();
  a_fork_computes_alone();
  std::_Exit(0);  // threads of the pool never end
}
