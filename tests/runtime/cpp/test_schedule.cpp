#include "softnpu/runtime/schedule.h"

#include <boost/test/unit_test.hpp>
#include <chrono>
#include <functional>
#include <thread>
#include <vector>

#include "tests/runtime/cpp/fixture.h"

using namespace softnpu;
using schedule::kLevelNs;
using schedule::kTurnNs;
using schedule::Turns;

namespace {

// A stream of a device and a priority.
struct Placed {
  void* handle;
  Stream& stream;
  Placed(int device, uint32_t priority)
      : handle(create_stream(slab<Context>().get(Device::get(device).primary_context()), priority, 0)),
        stream(slab<Stream>().get(handle)) {}
  ~Placed() { destroy_stream(handle, false); }
  Stream* operator&() { return &stream; }
};

std::function<int()> takes_ms(int ms, std::function<void()> then = {}) {
  return [ms, then] {
    std::this_thread::sleep_for(std::chrono::milliseconds(ms));
    if (then) then();
    return 0;
  };
}

}  // namespace

BOOST_AUTO_TEST_SUITE(test_schedule)

BOOST_AUTO_TEST_CASE(streams_of_one_priority_alternate) {
  Placed a(0, 3), b(0, 3);
  Turns turns;
  turns.add(&a, 1);
  turns.add(&b, 2);
  BOOST_TEST(turns.next() == &a);
  turns.add(&a, 3);
  BOOST_TEST(turns.next() == &b);
  turns.add(&b, 4);
  BOOST_TEST(turns.next() == &a);
  BOOST_TEST(turns.next() == &b);
  BOOST_TEST(turns.next() == static_cast<Stream*>(nullptr));
  BOOST_TEST(!turns.others());
}

BOOST_AUTO_TEST_CASE(a_higher_priority_goes_first_until_the_lower_has_waited_its_worth) {
  Placed high(0, 0), low(0, 7);
  Turns turns;
  turns.add(&low, 0);
  turns.add(&high, 7 * kLevelNs - 1);
  BOOST_TEST(turns.next() == &high);
  turns.add(&high, 7 * kLevelNs + 1);
  BOOST_TEST(turns.next() == &low);
}

BOOST_AUTO_TEST_CASE(a_changed_priority_moves_a_stream_that_waits) {
  Placed a(0, 7), b(0, 7);
  Turns turns;
  turns.add(&a, 1);
  turns.add(&b, 2);
  b.stream.set_priority(0);
  BOOST_TEST(turns.next() == &b);
}

BOOST_AUTO_TEST_CASE(devices_take_turns_however_many_streams_they_have) {
  Placed a(0, 0), b(0, 0), c(0, 0), other(1, 7);
  Turns turns;
  for (Placed* p : {std::addressof(a), std::addressof(b), std::addressof(c)}) turns.add(&*p, 1);
  turns.add(&other, 1);
  for (int i = 0; i < 6; ++i) {
    Stream* s = turns.next();
    BOOST_TEST(s->device() == i % 2);
    turns.add(s, 2 + i);
  }
}

BOOST_AUTO_TEST_CASE(a_turn_ends_after_its_time_or_for_a_higher_priority_of_the_same_device) {
  Placed mine(0, 3), equal(0, 3), higher(0, 2), elsewhere(1, 0);
  Turns turns;
  BOOST_TEST(!turns.over(mine.stream, 0, 100 * kTurnNs));  // nobody else
  turns.add(&equal, 0);
  turns.add(&elsewhere, 0);
  BOOST_TEST(!turns.over(mine.stream, 0, kTurnNs - 1));
  BOOST_TEST(turns.over(mine.stream, 0, kTurnNs));
  turns.add(&higher, 0);
  BOOST_TEST(turns.over(mine.stream, 0, 0));
}

// How many tasks of a stream that is kept fed finish after a task is given to another stream and before that has run.
int overtaken_by(Stream& fed, Stream& other) {
  std::atomic<int> done{0};
  Gate gate;
  submit(fed, Cost::kWide, [&] { return gate.pass(); });
  for (int i = 0; i < 300; ++i) submit(fed, Cost::kWide, takes_ms(1, [&] { ++done; }));
  int before = -1;
  submit(other, Cost::kWide, [&] {
    before = done;
    return 0;
  });
  gate.open();
  sync(other);
  fed.abort();
  sync(fed);
  return before;
}

BOOST_AUTO_TEST_CASE(wide_work_makes_way_for_a_higher_priority) {
  Placed fed(0, 7), urgent(0, 0);
  BOOST_TEST(overtaken_by(fed.stream, urgent.stream) == 0);
}

BOOST_AUTO_TEST_CASE(wide_work_makes_way_for_another_stream_and_another_device) {
  Placed fed(0, 3), equal(0, 3), elsewhere(1, 3);
  BOOST_TEST(overtaken_by(fed.stream, equal.stream) <= 3);
  BOOST_TEST(overtaken_by(fed.stream, elsewhere.stream) <= 3);
}

BOOST_AUTO_TEST_CASE(a_stream_that_feeds_itself_shuts_nobody_out) {
  for (auto [greedy_priority, priority] : {std::pair(0u, 7u), std::pair(3u, 3u)}) {
    Placed greedy(0, greedy_priority), low(0, priority);
    std::atomic<bool> ran{false};
    std::atomic<int> feeding{0};
    std::function<int()> again = [&] {
      std::this_thread::sleep_for(std::chrono::microseconds(200));
      if (!ran) submit(greedy.stream, Cost::kWide, again);
      ++feeding;
      return 0;
    };
    submit(greedy.stream, Cost::kWide, again);
    BOOST_TEST(eventually([&] { return feeding > 0; }));
    submit(low.stream, Cost::kWide, [&] {
      ran = true;
      return 0;
    });
    sync(low.stream);
    BOOST_TEST(ran);
    while (!greedy.stream.idle()) sync(greedy.stream);
  }
}

BOOST_AUTO_TEST_SUITE_END()
