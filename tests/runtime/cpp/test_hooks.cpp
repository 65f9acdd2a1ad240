#include "softnpu/sanitize/hooks.h"

#include <atomic>
#include <boost/test/unit_test.hpp>
#include <chrono>
#include <string>
#include <thread>

#include "softnpu/runtime/enqueue.h"
#include "tests/runtime/cpp/fixture.h"

using namespace softnpu;
using sanitize::Moment;
using sanitize::Point;

namespace {

// A bit a point. Observers stay, and executors come to points while the process ends: what they touch has no destructor.
std::atomic<uint32_t> seen{0};

int look(const Moment& m) noexcept {
  seen.fetch_or(1u << static_cast<int>(m.point));
  return 0;
}

// A cut and a hang, by the task's name.
int interfere(const Moment& m) noexcept {
  if (m.point != Point::kBegin || m.task == nullptr) return 0;
  if (m.task == std::string("cut")) {
    set_error_message("cut by a test");
    return 507000;
  }
  if (m.task == std::string("hang"))
    while (!running_task_aborted()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  return 0;
}

struct Added {
  Added() { BOOST_TEST_REQUIRE((sanitize::add_observer(look) && sanitize::add_observer(interfere))); }
};

void observed() { static Added once; }

}  // namespace

BOOST_AUTO_TEST_SUITE(test_hooks)

BOOST_AUTO_TEST_CASE(every_point_is_told) {
  observed();
  TestStream s;
  // Long enough that whoever waits below finds the stream busy, on any machine.
  submit(s, Cost::kHost, [] {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    return 0;
  });
  for (int i = 0; i < 3; ++i) submit(s, i % 2 ? Cost::kTiny : Cost::kHost, [] { return 0; });
  sync(s);
  TestEvent event;
  event->record(s);
  submit(s, Cost::kTiny, [] { return 3; });
  BOOST_CHECK_THROW(sync(s), Error);
  constexpr uint32_t kAll = (1u << sanitize::kPoints) - 1;
  BOOST_TEST(eventually([] { return seen == kAll; }));
}

BOOST_AUTO_TEST_CASE(a_cut_is_the_tasks_status_and_the_task_does_not_run) {
  observed();
  TestStream s;
  bool ran = false;
  submit(
      s, Cost::kSerial,
      [&] {
        ran = true;
        return 0;
      },
      "cut");
  BOOST_CHECK_EXCEPTION(sync(s), Error, [](const Error& e) {
    return e.code == 507000 && e.message == "cut failed on device 0: cut by a test";
  });
  BOOST_TEST(!ran);
}

BOOST_AUTO_TEST_CASE(a_hang_ends_with_an_abort) {
  observed();
  TestStream s;
  submit(s, Cost::kBlocking, [] { return 0; }, "hang");
  BOOST_CHECK_THROW(s->synchronize(deadline_after_ms(20), 507046), Error);
  s->abort();
  sync(s);
  BOOST_TEST(s->idle());
}

BOOST_AUTO_TEST_SUITE_END()
