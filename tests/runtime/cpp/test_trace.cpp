#include "softnpu/runtime/trace.h"

#include <boost/test/unit_test.hpp>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "softnpu/runtime/capture.h"
#include "softnpu/runtime/graph.h"
#include "tests/runtime/cpp/fixture.h"

using namespace softnpu;

namespace {

struct Seen {
  std::mutex mutex;
  std::vector<trace::Record> records;
  std::vector<trace::Call> calls;
};
Seen& seen() {
  static Seen& s = *new Seen;  // executors may still tell while the process ends
  return s;
}

void called(const trace::Call& c) noexcept {
  std::lock_guard lock(seen().mutex);
  seen().calls.push_back(c);
}
void ran(const trace::Record& r) noexcept {
  std::lock_guard lock(seen().mutex);
  seen().records.push_back(r);
}
void marked(const trace::Mark&) noexcept {}
constexpr trace::Listener kListener{called, ran, marked};

struct Listening {
  Listening() {
    seen().records.clear();
    seen().calls.clear();
    BOOST_TEST_REQUIRE(trace::listen(&kListener));
  }
  ~Listening() { trace::ignore(&kListener); }
};

size_t count() {
  std::lock_guard lock(seen().mutex);
  return seen().records.size();
}

}  // namespace

BOOST_AUTO_TEST_SUITE(test_trace)

BOOST_AUTO_TEST_CASE(nobody_listens_and_nothing_is_kept) {
  TestStream s;
  BOOST_TEST(!trace::on());
  submit(s, Cost::kTiny, [] { return 0; });
  sync(s);
  Listening listening;
  BOOST_TEST(count() == 0u);
}

BOOST_AUTO_TEST_CASE(a_record_has_the_order_and_the_times_of_its_task) {
  TestStream s;
  Listening listening;
  const int64_t before = trace::now();
  const char* names[] = {"first", "second", "third"};
  const Cost costs[] = {Cost::kTiny, Cost::kHost, Cost::kWide};
  for (int i = 0; i < 3; ++i) submit(s, costs[i], [] { return 0; }, names[i]);
  sync(s);
  const int64_t after = trace::now();
  const std::vector<trace::Record>& r = seen().records;
  BOOST_TEST_REQUIRE(r.size() == 3u);
  BOOST_TEST_REQUIRE(seen().calls.size() == 3u);
  for (int i = 0; i < 3; ++i) {
    BOOST_TEST(r[i].name == std::string(names[i]));
    BOOST_TEST((before <= r[i].queued && r[i].queued <= r[i].began && r[i].began <= r[i].ended && r[i].ended <= after));
    BOOST_TEST(r[i].correlation == seen().calls[i].correlation);
    BOOST_TEST((seen().calls[i].began <= seen().calls[i].ended));
    BOOST_TEST((r[i].device == 0 && r[i].status == 0));
    if (i) BOOST_TEST((r[i].began >= r[i - 1].ended && r[i].task == r[i - 1].task + 1));
  }
}

BOOST_AUTO_TEST_CASE(a_failed_task_has_its_status_and_a_skipped_one_no_record) {
  TestStream s;
  Gate gate;
  Listening listening;
  submit(s, Cost::kHost, [&] { return gate.pass(); }, "holds");
  submit(s, Cost::kTiny, [] { return 3; }, "fails");
  submit(s, Cost::kTiny, [] { return 0; }, "skipped");
  gate.open();
  BOOST_CHECK_THROW(sync(s), Error);
  BOOST_TEST_REQUIRE(count() == 2u);
  BOOST_TEST(seen().records[1].status == 3);
}

BOOST_AUTO_TEST_CASE(a_task_that_was_queued_before_anybody_listened_has_no_record) {
  TestStream s;
  Gate gate;
  submit(s, Cost::kHost, [&] { return gate.pass(); });
  Listening listening;
  gate.open();
  sync(s);
  BOOST_TEST(count() == 0u);
}

BOOST_AUTO_TEST_CASE(a_replay_is_recorded_anew_and_a_capture_is_not) {
  TestStream s;
  Listening listening;
  void* graph = new_graph();
  Capture::begin(s, graph, ACL_MODEL_RI_CAPTURE_MODE_RELAXED);
  submit(s, Cost::kTiny, [] { return 0; }, "replayed");
  submit(s, Cost::kTiny, [] { return 0; }, "replayed");
  auto list = Capture::of(s)->finish(s);
  BOOST_TEST(count() == 0u);
  for (int i = 0; i < 3; ++i) replay(list, s);
  sync(s);
  BOOST_TEST(count() == 6u);
  for (const trace::Record& r : seen().records) BOOST_TEST(r.name == std::string("replayed"));
  drop_graph(graph);
}

BOOST_AUTO_TEST_CASE(listening_begins_and_ends_while_streams_are_fed) {
  std::atomic<bool> stop{false};
  std::vector<std::thread> feeders;
  for (int i = 0; i < 2; ++i)
    feeders.emplace_back([&] {
      primary();
      TestStream s;
      for (int n = 0; !stop; ++n) {
        submit(s, n % 3 ? Cost::kTiny : Cost::kSerial, [] { return 0; });
        if (n % 16 == 0) sync(s);
      }
      sync(s);
    });
  for (int i = 0; i < 200; ++i) {
    BOOST_TEST_REQUIRE(trace::listen(&kListener));
    std::this_thread::yield();
    trace::ignore(&kListener);
  }
  stop = true;
  for (std::thread& t : feeders) t.join();
  BOOST_TEST(!trace::on());
}

BOOST_AUTO_TEST_SUITE_END()
