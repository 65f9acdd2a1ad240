#include "softnpu/runtime/event.h"

#include <boost/test/unit_test.hpp>
#include <thread>

#include "acl/types.h"
#include "tests/runtime/cpp/fixture.h"

using namespace softnpu;

BOOST_AUTO_TEST_SUITE(test_event)

BOOST_AUTO_TEST_CASE(done_only_after_the_body_has_returned) {
  TestStream s;
  TestEvent e;
  Gate gate;
  std::atomic<bool> inside{false};
  submit(s, Cost::kSerial, [&] {
    inside = true;
    return gate.pass();
  });
  e->record(s);
  BOOST_TEST(eventually([&] { return inside.load(); }));
  BOOST_TEST(!e->done());  // the task has been taken, but still runs
  gate.open();
  e->synchronize(kForever);
  BOOST_TEST(e->done());
}

BOOST_AUTO_TEST_CASE(a_stream_waits_for_another) {
  TestStream a, b;
  TestEvent e;
  Gate gate;
  std::atomic<int> value{0};
  int seen = -1;
  submit(a, Cost::kHost, [&] {
    gate.pass();
    value = 5;
    return 0;
  });
  e->record(a);
  e->wait_on(b);
  submit(b, Cost::kTiny, [&] {
    seen = value;
    return 0;
  });
  BOOST_TEST(!e->waits_done());
  gate.open();
  sync(b);
  BOOST_TEST(seen == 5);
  BOOST_TEST(e->waits_done());
}

BOOST_AUTO_TEST_CASE(a_wait_keeps_the_record_it_saw) {
  TestStream a, b;
  Gate first, second;
  std::atomic<bool> passed{false};
  {
    TestEvent e;
    submit(a, Cost::kHost, [&] { return first.pass(); });
    e->record(a);
    e->wait_on(b);
    submit(a, Cost::kHost, [&] { return second.pass(); });
    e->record(a);
  }  // and outlives the event
  submit(b, Cost::kSerial, [&] {
    passed = true;
    return 0;
  });
  first.open();
  BOOST_TEST(eventually([&] { return passed.load(); }));
  second.open();
  sync(a);
  sync(b);
}

BOOST_AUTO_TEST_CASE(an_event_never_recorded_holds_nobody_up) {
  TestStream s;
  TestEvent e;
  BOOST_TEST(e->done());
  BOOST_TEST(!e->recorded());
  e->wait_on(s);
  e->synchronize(kForever);
  BOOST_TEST(s->idle());
}

BOOST_AUTO_TEST_CASE(elapsed_time_is_that_of_the_work_between) {
  TestStream s;
  TestEvent start(ACL_EVENT_TIME_LINE), end(ACL_EVENT_TIME_LINE);
  start->record(s);
  submit(s, Cost::kSerial, [] {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    return 0;
  });
  end->record(s);
  end->synchronize(kForever);
  double ms = double(end->timestamp_ns() - start->timestamp_ns()) / 1e6;
  BOOST_TEST(ms >= 20);
  BOOST_TEST(ms < 2000);
}

BOOST_AUTO_TEST_CASE(no_time_without_the_flag_or_before_it_happened) {
  TestStream s;
  TestEvent plain, timed(ACL_EVENT_TIME_LINE);
  plain->record(s);
  BOOST_CHECK_EXCEPTION(plain->timestamp_ns(), Error, [](const Error& e) { return e.code == 107006; });
  BOOST_CHECK_EXCEPTION(timed->timestamp_ns(), Error, [](const Error& e) { return e.code == 107006; });
  Gate gate;
  submit(s, Cost::kHost, [&] { return gate.pass(); });
  timed->record(s);
  BOOST_CHECK_EXCEPTION(timed->timestamp_ns(), Error, [](const Error& e) { return e.code == 507006; });
  gate.open();
  timed->synchronize(kForever);
  BOOST_TEST(timed->timestamp_ns() > 0);
}

BOOST_AUTO_TEST_CASE(a_failure_passes_to_the_stream_that_waits) {
  TestStream a, b;
  TestEvent e;
  Gate gate;
  bool ran = false;
  submit(a, Cost::kHost, [&] {
    gate.pass();
    return 11;
  });
  e->record(a);
  e->wait_on(b);
  submit(b, Cost::kSerial, [&] {
    ran = true;
    return 0;
  });
  gate.open();
  BOOST_CHECK_EXCEPTION(sync(b), Error, [](const Error& e) { return e.code == 11; });
  BOOST_TEST(!ran);
  BOOST_CHECK_EXCEPTION(e->synchronize(kForever), Error, [](const Error& e) { return e.code == 11; });
}

BOOST_AUTO_TEST_CASE(reset_forgets_the_record) {
  TestStream s;
  TestEvent e;
  e->record(s);
  e->reset(s);
  BOOST_TEST(!e->recorded());
}

BOOST_AUTO_TEST_CASE(many_streams_in_a_circle) {
  // A chain of waits over three streams, many rounds: the counter must come out exact.
  TestStream s[3];
  long counter = 0;
  for (int i = 0; i < 1500; ++i) {
    TestEvent e;
    submit(s[i % 3], i % 5 ? Cost::kSerial : Cost::kHost, [&] {
      ++counter;
      return 0;
    });
    e->record(s[i % 3]);
    e->wait_on(s[(i + 1) % 3]);
  }
  for (auto& x : s) sync(x);
  BOOST_TEST(counter == 1500);
}

BOOST_AUTO_TEST_SUITE_END()
