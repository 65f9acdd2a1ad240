#include "softnpu/sanitize/hooks.h"

#include <boost/test/unit_test.hpp>
#include <mutex>
#include <set>
#include <string>

#include "softnpu/runtime/enqueue.h"
#include "tests/runtime/cpp/fixture.h"

using namespace softnpu;
using sanitize::Moment;
using sanitize::Point;

namespace {

std::mutex mutex;
std::set<Point> seen;

int look(const Moment& m) noexcept {
  std::lock_guard lock(mutex);
  seen.insert(m.point);
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
  for (int i = 0; i < 3; ++i) submit(s, i % 2 ? Cost::kTiny : Cost::kHost, [] { return 0; });
  sync(s);
  submit(s, Cost::kTiny, [] { return 3; });
  BOOST_CHECK_THROW(sync(s), Error);
  BOOST_TEST(eventually([] {
    std::lock_guard lock(mutex);
    return seen.size() >= sanitize::kPoints - 1;  // all but kRecord, which is an event's
  }));
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
