#include "softnpu/runtime/busy.h"

#include <unistd.h>

#include <atomic>
#include <boost/test/unit_test.hpp>
#include <chrono>
#include <thread>
#include <vector>

#include "softnpu/runtime/futex.h"
#include "softnpu/runtime/registry_view.h"

using namespace softnpu;

namespace {

constexpr int64_t kMs = 1'000'000;

void sleep_ms(int n) { std::this_thread::sleep_for(std::chrono::milliseconds(n)); }

// What the registry says of this process on a device.
struct Told {
  int64_t worked = -1;
  bool now = false;
};
Told told(int device) {
  const RegistryView view = read_registry();
  Told found;
  for (const RegistryRecord& r : view.records)
    if (r.pid == getpid() && r.device == device)
      found = {int64_t(busy_ns(r.busy, view.at_ns)), (r.busy & kBusyNow) != 0};
  return found;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(test_busy)

BOOST_AUTO_TEST_CASE(a_stretch_that_does_nothing_says_nothing) {
  {
    Stretch s(4);
  }
  BOOST_TEST(told(4).worked == -1);
}

BOOST_AUTO_TEST_CASE(work_is_seen_while_it_lasts_and_kept_after) {
  const int64_t began = now_ns();
  Stretch s(5);
  s.work();
  sleep_ms(5);
  const Told during = told(5);
  BOOST_TEST((during.now && during.worked >= 5 * kMs));
  s.work();  // it works already
  s.rest();
  const int64_t lasted = now_ns() - began;
  const Told after = told(5);
  BOOST_TEST((!after.now && after.worked >= during.worked && after.worked <= lasted));
  sleep_ms(5);
  BOOST_TEST(told(5).worked == after.worked);
  s.work();
  BOOST_TEST((told(5).now && told(5).worked >= after.worked));
}

BOOST_AUTO_TEST_CASE(two_at_once_are_one_and_the_last_ends_it) {
  const int64_t began = now_ns();
  Stretch first(6), second(6);
  first.work();
  second.work();
  sleep_ms(5);
  first.rest();
  BOOST_TEST(told(6).now);
  second.rest();
  const Told after = told(6);
  BOOST_TEST((!after.now && after.worked >= 5 * kMs && after.worked <= now_ns() - began));
}

BOOST_AUTO_TEST_CASE(threads_that_begin_and_end_leave_a_sum_that_fits_the_time) {
  const int64_t began = now_ns();
  std::atomic<bool> stop{false};
  std::vector<std::thread> threads;
  for (int i = 0; i < 3; ++i)
    threads.emplace_back([&] {
      for (int n = 0; n < 2000; ++n) {
        Stretch s(7);
        s.work();
        if (n % 64 == 0) std::this_thread::yield();
        s.rest();
        s.work();
      }
    });
  bool fits = true;
  std::thread reader([&] {
    // The clock is read after the word. A reading that took long says at most so much too much: the next one may be less by that.
    int64_t last = 0, took = 0;
    while (!stop) {
      const int64_t asked = now_ns();
      const Told t = told(7);
      if (t.worked < 0) continue;
      fits = fits && t.worked >= last - took && t.worked <= now_ns() - began;  // never half a word
      last = t.worked;
      took = now_ns() - asked;
    }
  });
  for (std::thread& t : threads) t.join();
  stop = true;
  reader.join();
  BOOST_TEST(fits);
  const Told after = told(7);
  BOOST_TEST((!after.now && after.worked > 0 && after.worked <= now_ns() - began));
}

BOOST_AUTO_TEST_SUITE_END()
