// A failure that one thread was told of, and the others whose tasks it cost.
#include <boost/test/unit_test.hpp>
#include <thread>

#include "tests/runtime/cpp/fixture.h"

using namespace softnpu;

BOOST_AUTO_TEST_SUITE(test_owed)

BOOST_AUTO_TEST_CASE(each_thread_whose_tasks_failed_or_were_skipped_is_told_once) {
  TestStream s, mine;
  Gate gate, queued, reported;
  int told = 0, passed_on = 0, untouched = 0;
  const auto status = [](Stream& stream) {
    try {
      sync(stream);
      return 0;
    } catch (const Error& error) {
      return error.code;
    }
  };
  const auto nothing = [] { return 0; };
  submit(s, Cost::kHost, [&] { return gate.pass(); });
  submit(s, Cost::kSerial, [] { return 9; });
  std::thread same([&] {
    submit(s, Cost::kSerial, nothing);
    queued.open();
    reported.pass();
    submit(s, Cost::kSerial, nothing);  // runs, and does not make up for the one that was skipped
    told = status(s) == 9 && status(s) == 0;
  });
  queued.pass();
  Gate also_queued;
  std::thread other([&] {
    submit(s, Cost::kSerial, nothing);
    const uint64_t after = s->tail();
    also_queued.open();
    reported.pass();
    mine->wait_behind(s, after, "wait");
    passed_on = status(mine) == 9 && status(mine) == 0 && status(s) == 0;
  });
  also_queued.pass();
  gate.open();
  BOOST_TEST(status(s) == 9);
  BOOST_TEST(status(s) == 0);
  std::thread([&] { untouched = status(s) == 0; }).join();
  reported.open();
  same.join();
  other.join();
  BOOST_TEST((told && passed_on && untouched));
}

BOOST_AUTO_TEST_CASE(what_was_put_before_the_failure_is_not_charged_with_it) {
  TestStream s;
  TestEvent before, after;
  Gate gate;
  submit(s, Cost::kHost, [&] { return gate.pass(); });
  before->record(s);
  submit(s, Cost::kSerial, [] { return 9; });
  after->record(s);
  gate.open();
  before->synchronize(kForever);
  BOOST_CHECK_EXCEPTION(after->synchronize(kForever), Error, [](const Error& e) { return e.code == 9; });
  before->synchronize(kForever);
  sync(s);
}

BOOST_AUTO_TEST_CASE(an_abort_is_owed_to_nobody) {
  TestStream s;
  Gate gate, queued, aborted;
  int found = -1;
  submit(s, Cost::kHost, [&] { return gate.pass(); });
  std::thread other([&] {
    submit(s, Cost::kSerial, [] { return 9; });
    queued.open();
    aborted.pass();
    sync(s);
    found = 0;
  });
  queued.pass();
  s->abort();
  gate.open();
  sync(s);
  aborted.open();
  other.join();
  BOOST_TEST(found == 0);
}

BOOST_AUTO_TEST_SUITE_END()
