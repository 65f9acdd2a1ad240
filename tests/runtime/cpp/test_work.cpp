#include "softnpu/runtime/work.h"

#include <atomic>
#include <boost/test/unit_test.hpp>
#include <deque>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "softnpu/runtime/enqueue.h"
#include "tests/runtime/cpp/fixture.h"

using namespace softnpu;

namespace {

// What became of a task.
struct Fate {
  std::atomic<int> runs{0}, drops{0};
  std::atomic<bool> ran_after_drop{false};
  int status = 0;

  static int run(void* state) noexcept {
    auto* f = static_cast<Fate*>(state);
    f->runs++;
    if (f->drops) f->ran_after_drop = true;
    return f->status;
  }
  static void drop(void* state) noexcept { static_cast<Fate*>(state)->drops++; }
  Task task(Cost cost = Cost::kTiny) { return {run, drop, this, "fate", cost}; }
};

}  // namespace

BOOST_AUTO_TEST_SUITE(test_work)

BOOST_AUTO_TEST_CASE(one_that_nobody_takes_is_dropped_unrun) {
  Fate f;
  {
    Work w(f.task());
  }
  BOOST_TEST(f.runs == 0);
  BOOST_TEST(f.drops == 1);
}

BOOST_AUTO_TEST_CASE(moving_moves_the_duty_to_drop) {
  Fate f;
  {
    Work a(f.task());
    Work b(std::move(a));
    BOOST_TEST(b.run() == 0);
    BOOST_TEST(b.run() == 0);
    b.drop();
    b.drop();
  }
  BOOST_TEST(f.runs == 2);
  BOOST_TEST(f.drops == 1);
}

BOOST_AUTO_TEST_CASE(a_payload_moves_with_it) {
  struct Payload {
    int value;
    Fate* fate;
  };
  Fate f;
  {
    Work a({[](void* p) noexcept { return static_cast<Payload*>(p)->value; },
            [](void* p) noexcept { Fate::drop(static_cast<Payload*>(p)->fate); }, nullptr, "payload", Cost::kTiny},
           Payload{42, &f});
    Work b(std::move(a));
    BOOST_TEST(b.run() == 42);
  }
  BOOST_TEST(f.drops == 1);
}

BOOST_AUTO_TEST_CASE(a_refused_task_is_dropped_once_and_never_runs) {
  TestStream s;
  submit(s, Cost::kTiny, [] { return 5; });
  BOOST_TEST(eventually([&] { return s->failed(); }));
  Fate f;
  BOOST_CHECK_THROW(s->submit(Work(f.task())), Error);
  BOOST_TEST(f.drops == 1);
  BOOST_TEST(enqueue(s.handle, f.task()) == 5);
  BOOST_TEST(f.drops == 2);
  BOOST_TEST(enqueue(reinterpret_cast<void*>(0x1234), f.task()) != 0);
  BOOST_TEST(f.drops == 3);
  BOOST_TEST(f.runs == 0);
  BOOST_CHECK_THROW(sync(s), Error);
}

// One thread's reports clear the error between another's look at it and its reading of it.
BOOST_AUTO_TEST_CASE(an_error_cleared_while_a_task_is_refused_drops_no_task_that_runs) {
  TestStream s;
  std::atomic<bool> stop{false};
  std::thread reporter([&] {
    while (!stop) {
      try {
        sync(s);
      } catch (const Error&) {
      }
    }
  });
  std::deque<Fate> fates;
  int accepted = 0, refused = 0;
  const int64_t until = deadline_after_ms(1500);
  for (int i = 0; now_ns() < until && i < 300'000; ++i) {
    Fate& f = fates.emplace_back();
    f.status = i % 2 ? 0 : 3;
    try {
      s->submit(Work(f.task(i % 3 ? Cost::kTiny : Cost::kSerial)));
      ++accepted;
    } catch (const Error& e) {
      ++refused;
      BOOST_REQUIRE(e.code == 3);
      BOOST_REQUIRE(f.runs == 0);
    }
  }
  stop = true;
  reporter.join();
  try {
    sync(s);
  } catch (const Error&) {
  }
  BOOST_TEST(accepted > 0);
  BOOST_TEST(refused > 0);
  int wrong = 0;
  for (Fate& f : fates) wrong += f.drops != 1 || f.runs > 1 || f.ran_after_drop;
  BOOST_TEST(wrong == 0);
}

BOOST_AUTO_TEST_SUITE_END()
