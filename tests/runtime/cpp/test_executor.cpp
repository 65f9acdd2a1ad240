#include "softnpu/runtime/executor.h"

#include <boost/test/unit_test.hpp>
#include <thread>

#include "acl/api.h"
#include "softnpu/runtime/enqueue.h"
#include "tests/runtime/cpp/fixture.h"

using namespace softnpu;

BOOST_AUTO_TEST_SUITE(test_executor)

BOOST_AUTO_TEST_CASE(an_idle_compute_thread_says_so_once_after_work) {
  static std::atomic<int> calls{0};
  static std::atomic<bool> there{false};
  on_compute_idle([]() noexcept {
    there = on_compute_thread();
    calls++;
  });
  TestStream s;
  for (int round = 1; round <= 3; round++) {
    submit(s, Cost::kWide, [] { return 0; });
    sync(s);
    BOOST_TEST(eventually([&] { return calls == round; }));
    BOOST_TEST(there);
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    BOOST_TEST(calls == round);
  }
  on_compute_idle(nullptr);
}

BOOST_AUTO_TEST_CASE(a_thread_makes_room_before_it_leaves_a_task_to_the_compute_thread) {
  static std::atomic<int> calls{0};
  static std::atomic<std::thread::id> where{};
  before_compute([]() noexcept {
    where = std::this_thread::get_id();
    calls++;
  });
  TestStream s, other;
  const auto called = [&](Stream& stream, Cost cost) {
    const int before = calls;
    int seen = 0;
    submit(stream, cost, [&] { return seen = calls, 0; });
    sync(stream);
    return std::pair(calls - before, seen - before);
  };
  for (Cost cost : {Cost::kTiny, Cost::kSerial, Cost::kHost, Cost::kBlocking})
    BOOST_TEST((called(s, cost) == std::pair(0, 0)));
  BOOST_TEST((called(s, Cost::kWide) == std::pair(1, 1)));  // before the task runs
  BOOST_TEST((where.load() == std::this_thread::get_id()));

  void* graph = nullptr;
  BOOST_REQUIRE(aclmdlRICaptureBegin(s.handle, ACL_MODEL_RI_CAPTURE_MODE_RELAXED) == 0);
  for (int i = 0; i < 3; i++) submit(s, Cost::kWide, [] { return 0; });
  BOOST_REQUIRE(aclmdlRICaptureEnd(s.handle, &graph) == 0);
  BOOST_TEST(calls == 1);  // what is captured does not run
  std::thread replaying([&] {
    set_current_context(Device::get(0).primary_context());
    BOOST_TEST(aclmdlRIExecuteAsync(graph, s.handle) == 0);
    sync(s);
    BOOST_TEST(calls == 4);
    BOOST_TEST((where.load() == std::this_thread::get_id()));
  });
  replaying.join();
  BOOST_TEST(aclmdlRIDestroy(graph) == 0);

  calls = 0;  // the compute thread has nobody to make room for
  submit(s, Cost::kWide, [&] { return submit(other, Cost::kWide, [] { return 0; }); });
  sync(s);
  sync(other);
  BOOST_TEST(calls == 1);
  before_compute(nullptr);
}

BOOST_AUTO_TEST_SUITE_END()
