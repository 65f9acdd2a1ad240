#include "softnpu/sanitize/chaos.h"

#include <sched.h>
#include <time.h>

#include <atomic>

#include "softnpu/sanitize/hooks.h"

namespace softnpu::sanitize {
namespace {

std::atomic<uint64_t> g_seed{0};
std::atomic<uint64_t> g_threads{0};

// splitmix64
uint64_t mixed(uint64_t x) noexcept {
  x += 0x9E3779B97F4A7C15;
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EB;
  return x ^ (x >> 31);
}

uint64_t draw() noexcept {
  static thread_local uint64_t state = mixed(g_seed.load() + (g_threads.fetch_add(1) << 32));
  return state = mixed(state);
}

void sleep_us(long us) noexcept {
  timespec t{0, us * 1000};
  nanosleep(&t, nullptr);
}

// Of 1024 visits 32 yield, 16 sleep a little (a thread changes over) and 2 sleep long (queues run full or empty).
int delay(const Moment&) noexcept {
  uint64_t r = draw();
  uint64_t die = r % 1024;
  if (die < 32)
    sched_yield();
  else if (die < 48)
    sleep_us(long(1 + (r >> 20) % 100));
  else if (die < 50)
    sleep_us(long(200 + (r >> 20) % 1800));
  return 0;
}

}  // namespace

void start_chaos(uint64_t seed) noexcept {
  static const bool once = [seed] {
    g_seed.store(seed);
    return add_observer(delay);
  }();
  (void)once;
}

}  // namespace softnpu::sanitize
