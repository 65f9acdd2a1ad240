#include "softnpu/runtime/task_group.h"

#include <boost/test/unit_test.hpp>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "acl/api.h"
#include "softnpu/runtime/error.h"
#include "tests/runtime/cpp/fixture.h"

using namespace softnpu;

namespace {

// What ran, in order.
struct Trail {
  std::mutex mutex;
  std::vector<int> seen;

  int add(int value) {
    std::lock_guard lock(mutex);
    seen.push_back(value);
    return 0;
  }
  std::vector<int> take() {
    std::lock_guard lock(mutex);
    return std::exchange(seen, {});
  }
};

void give(Stream& stream, Trail& trail, int value, const char* name = "step", Cost cost = Cost::kTiny) {
  submit(stream, cost, [&trail, value] { return trail.add(value); }, name);
}

using Values = std::vector<int>;

// 1, then a group of 2 and 3, then 4.
struct Graphed {
  TestStream stream;
  Trail trail;
  void* group = nullptr;
  void* graph = nullptr;

  Graphed() {
    BOOST_REQUIRE(aclmdlRICaptureBegin(stream.handle, ACL_MODEL_RI_CAPTURE_MODE_RELAXED) == 0);
    give(stream, trail, 1);
    BOOST_REQUIRE(aclmdlRICaptureTaskGrpBegin(stream.handle) == 0);
    give(stream, trail, 2);
    give(stream, trail, 3);
    BOOST_REQUIRE(aclmdlRICaptureTaskGrpEnd(stream.handle, &group) == 0);
    give(stream, trail, 4);
    BOOST_REQUIRE(aclmdlRICaptureEnd(stream.handle, &graph) == 0);
  }
  ~Graphed() {
    if (graph) aclmdlRIDestroy(graph);
  }

  int update(TestStream& on, Values values, const char* name = "step", Cost cost = Cost::kTiny) {
    if (const int code = aclmdlRICaptureTaskUpdateBegin(on.handle, group)) return code;
    for (int value : values) give(on, trail, value, name, cost);
    return aclmdlRICaptureTaskUpdateEnd(on.handle);
  }
  Values replayed() {
    BOOST_REQUIRE(aclmdlRIExecuteAsync(graph, stream.handle) == 0);
    sync(stream);
    return trail.take();
  }
};

bool says(const char* text) {
  const std::string message = take_recent_message();
  const bool found = message.find(text) != std::string::npos;
  if (!found) BOOST_TEST_MESSAGE(message);
  return found;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(test_task_group)

BOOST_AUTO_TEST_CASE(an_update_replaces_the_tasks_of_the_group) {
  Graphed g;
  TestStream other;
  BOOST_TEST(g.replayed() == (Values{1, 2, 3, 4}));
  BOOST_TEST(g.update(g.stream, {5, 6}) == 0);
  BOOST_TEST(g.trail.take().empty());  // recorded, not run
  BOOST_TEST(g.replayed() == (Values{1, 5, 6, 4}));
  BOOST_TEST(g.update(other, {7, 8}) == 0);
  sync(other);
  BOOST_TEST(g.replayed() == (Values{1, 7, 8, 4}));
  BOOST_TEST(g.replayed() == (Values{1, 7, 8, 4}));
}

BOOST_AUTO_TEST_CASE(an_update_has_its_place_in_its_stream) {
  Graphed g;
  Gate gate;
  submit(g.stream, Cost::kHost, [&] { return gate.pass(); });
  BOOST_TEST(aclmdlRIExecuteAsync(g.graph, g.stream.handle) == 0);
  BOOST_TEST(g.update(g.stream, {5, 6}, "step", Cost::kSerial) == 0);  // queued behind a replay that has not begun
  BOOST_TEST(aclmdlRIExecuteAsync(g.graph, g.stream.handle) == 0);
  gate.open();
  sync(g.stream);
  BOOST_TEST(g.trail.take() == (Values{1, 2, 3, 4, 1, 5, 6, 4}));
}

BOOST_AUTO_TEST_CASE(a_replay_that_waits_takes_the_update_that_it_waits_for) {
  TestStream stream, updates;
  TestEvent event(ACL_EVENT_EXTERNAL);
  Trail trail;
  void *group, *graph;
  BOOST_REQUIRE(aclmdlRICaptureBegin(stream.handle, ACL_MODEL_RI_CAPTURE_MODE_RELAXED) == 0);
  event->wait_on(stream);
  event->reset(stream);
  BOOST_REQUIRE(aclmdlRICaptureTaskGrpBegin(stream.handle) == 0);
  give(stream, trail, 0);
  BOOST_REQUIRE(aclmdlRICaptureTaskGrpEnd(stream.handle, &group) == 0);
  BOOST_REQUIRE(aclmdlRICaptureEnd(stream.handle, &graph) == 0);
  for (int value = 1; value <= 3; ++value) {
    BOOST_TEST(aclmdlRIExecuteAsync(graph, stream.handle) == 0);
    BOOST_TEST(aclmdlRICaptureTaskUpdateBegin(updates.handle, group) == 0);
    give(updates, trail, value, "step", Cost::kWide);
    BOOST_TEST(aclmdlRICaptureTaskUpdateEnd(updates.handle) == 0);
    event->record(updates);
    sync(stream);
    BOOST_TEST(trail.take() == (Values{value}));
  }
  BOOST_TEST(aclmdlRIDestroy(graph) == 0);
}

BOOST_AUTO_TEST_CASE(two_groups_are_updated_each_alone) {
  TestStream stream;
  Trail trail;
  void *groups[2], *graph;
  BOOST_REQUIRE(aclmdlRICaptureBegin(stream.handle, ACL_MODEL_RI_CAPTURE_MODE_RELAXED) == 0);
  for (auto& group : groups) {
    BOOST_REQUIRE(aclmdlRICaptureTaskGrpBegin(stream.handle) == 0);
    give(stream, trail, 0);
    BOOST_REQUIRE(aclmdlRICaptureTaskGrpEnd(stream.handle, &group) == 0);
  }
  BOOST_REQUIRE(aclmdlRICaptureEnd(stream.handle, &graph) == 0);
  for (int i : {1, 0}) {
    BOOST_TEST(aclmdlRICaptureTaskUpdateBegin(stream.handle, groups[i]) == 0);
    give(stream, trail, i + 1);
    BOOST_TEST(aclmdlRICaptureTaskUpdateEnd(stream.handle) == 0);
    BOOST_TEST(aclmdlRIExecuteAsync(graph, stream.handle) == 0);
  }
  sync(stream);
  BOOST_TEST(trail.take() == (Values{0, 2, 1, 2}));
  BOOST_TEST(aclmdlRIDestroy(graph) == 0);
}

BOOST_AUTO_TEST_CASE(what_does_not_fit_is_refused_and_the_group_stays) {
  Graphed g;
  BOOST_TEST(g.update(g.stream, {5}) == ACL_ERROR_RT_MODEL_UPDATE_FAILED);
  BOOST_TEST(says("the update has 1 tasks and the group 2"));
  BOOST_TEST(g.update(g.stream, {5, 6}, "another") == ACL_ERROR_RT_MODEL_UPDATE_FAILED);
  BOOST_TEST(says("task 0 of the update is another and of the group step"));
  BOOST_TEST(g.update(g.stream, {5, 6}, "step", Cost::kHost) == ACL_ERROR_RT_MODEL_UPDATE_FAILED);
  BOOST_TEST(g.replayed() == (Values{1, 2, 3, 4}));
  BOOST_TEST(g.update(g.stream, {5, 6}) == 0);
  BOOST_TEST(g.replayed() == (Values{1, 5, 6, 4}));
}

BOOST_AUTO_TEST_CASE(calls_out_of_order_are_refused_by_name) {
  Graphed g;
  TestStream s;
  void *group = nullptr, *graph = nullptr;
  BOOST_TEST(aclmdlRICaptureTaskGrpBegin(s.handle) == ACL_ERROR_RT_STREAM_NOT_CAPTURED);
  BOOST_TEST(aclmdlRICaptureTaskGrpEnd(s.handle, &group) == ACL_ERROR_RT_STREAM_NOT_CAPTURED);
  BOOST_TEST(aclmdlRICaptureTaskUpdateEnd(s.handle) == ACL_ERROR_STREAM_TASK_GROUP_STATUS);
  BOOST_TEST(aclmdlRICaptureTaskUpdateBegin(s.handle, nullptr) == ACL_ERROR_INVALID_PARAM);
  BOOST_TEST(aclmdlRICaptureTaskUpdateBegin(s.handle, s.handle) == ACL_ERROR_RT_INVALID_HANDLE);

  BOOST_TEST(aclmdlRICaptureBegin(s.handle, ACL_MODEL_RI_CAPTURE_MODE_RELAXED) == 0);
  BOOST_TEST(aclmdlRICaptureTaskGrpEnd(s.handle, &group) == ACL_ERROR_STREAM_TASK_GROUP_STATUS);
  BOOST_TEST(aclmdlRICaptureTaskGrpBegin(s.handle) == 0);
  BOOST_TEST(aclmdlRICaptureTaskGrpBegin(s.handle) == ACL_ERROR_STREAM_TASK_GROUP_STATUS);
  BOOST_TEST(says("groups do not nest"));
  give(s, g.trail, 9);
  BOOST_TEST(aclmdlRICaptureTaskGrpEnd(s.handle, &group) == 0);
  BOOST_TEST(aclmdlRICaptureTaskUpdateBegin(s.handle, g.group) == ACL_ERROR_RT_STREAM_CAPTURED);
  TestStream other;
  BOOST_TEST(aclmdlRICaptureTaskUpdateBegin(other.handle, group) == ACL_ERROR_RT_MODEL_CAPTURED);
  BOOST_TEST(aclmdlRICaptureEnd(s.handle, &graph) == 0);  // none of that has made it invalid
  BOOST_TEST(aclmdlRIExecuteAsync(graph, s.handle) == 0);
  sync(s);
  BOOST_TEST(g.trail.take() == (Values{9}));

  BOOST_TEST(aclmdlRICaptureTaskUpdateBegin(s.handle, group) == 0);
  BOOST_TEST(aclmdlRICaptureTaskUpdateBegin(s.handle, group) == ACL_ERROR_STREAM_TASK_GROUP_STATUS);
  BOOST_TEST(aclmdlRICaptureTaskGrpBegin(s.handle) == ACL_ERROR_STREAM_TASK_GROUP_STATUS);
  void* none = nullptr;
  BOOST_TEST(aclmdlRICaptureEnd(s.handle, &none) == ACL_ERROR_RT_STREAM_NOT_CAPTURED);
  give(s, g.trail, 8);
  BOOST_TEST(aclmdlRICaptureTaskUpdateEnd(s.handle) == 0);
  BOOST_TEST(aclmdlRIExecuteAsync(graph, s.handle) == 0);
  sync(s);
  BOOST_TEST(g.trail.take() == (Values{8}));
  BOOST_TEST(aclmdlRIDestroy(graph) == 0);
  BOOST_TEST(aclmdlRICaptureTaskUpdateBegin(s.handle, group) == ACL_ERROR_RT_INVALID_HANDLE);
}

BOOST_AUTO_TEST_CASE(a_capture_with_an_open_group_is_no_graph) {
  TestStream s;
  Trail trail;
  void* graph = nullptr;
  BOOST_TEST(aclmdlRICaptureBegin(s.handle, ACL_MODEL_RI_CAPTURE_MODE_RELAXED) == 0);
  BOOST_TEST(aclmdlRICaptureTaskGrpBegin(s.handle) == 0);
  BOOST_TEST(aclmdlRICaptureEnd(s.handle, &graph) == ACL_ERROR_STREAM_TASK_GROUP_STATUS);
  give(s, trail, 1);  // the stream is free again
  sync(s);
  BOOST_TEST(trail.take() == (Values{1}));
}

BOOST_AUTO_TEST_CASE(an_update_takes_no_events_and_no_waiting) {
  Graphed g;
  TestStream s;
  TestEvent event, flag(ACL_EVENT_EXTERNAL);
  const auto refused = [&](auto&& call) {
    BOOST_TEST(aclmdlRICaptureTaskUpdateBegin(s.handle, g.group) == 0);
    BOOST_CHECK_THROW(call(), Error);
    BOOST_TEST(aclmdlRICaptureTaskUpdateEnd(s.handle) == ACL_ERROR_RT_MODEL_UPDATE_FAILED);
  };
  refused([&] { sync(s); });
  refused([&] { event->record(s); });
  refused([&] { flag->record(s); });
  refused([&] { flag->wait_on(s); });
  BOOST_TEST(g.replayed() == (Values{1, 2, 3, 4}));
  BOOST_TEST(aclmdlRICaptureTaskUpdateBegin(s.handle, g.group) == 0);
  BOOST_TEST(aclrtSynchronizeDevice() == 0);  // by somebody who does not know of the update
  give(s, g.trail, 5);
  give(s, g.trail, 6);
  BOOST_TEST(aclmdlRICaptureTaskUpdateEnd(s.handle) == 0);
  sync(s);
  BOOST_TEST(g.replayed() == (Values{1, 5, 6, 4}));
}

BOOST_AUTO_TEST_CASE(a_group_of_a_graph_within_a_graph_is_updated_there_too) {
  Graphed g;
  TestStream s;
  void* outer = nullptr;
  BOOST_TEST(aclmdlRICaptureBegin(s.handle, ACL_MODEL_RI_CAPTURE_MODE_RELAXED) == 0);
  BOOST_TEST(aclmdlRIExecuteAsync(g.graph, s.handle) == 0);
  BOOST_TEST(aclmdlRICaptureEnd(s.handle, &outer) == 0);
  for (int value : {5, 7}) {
    BOOST_TEST(g.update(s, {value, value + 1}) == 0);
    BOOST_TEST(aclmdlRIExecuteAsync(outer, s.handle) == 0);
    sync(s);
    BOOST_TEST(g.trail.take() == (Values{1, value, value + 1, 4}));
  }
  BOOST_TEST(aclmdlRIDestroy(outer) == 0);
}

BOOST_AUTO_TEST_CASE(what_was_replaced_is_dropped_and_a_replay_in_flight_keeps_what_it_took) {
  Graphed g;
  TestStream updates;
  auto value = std::make_shared<int>(5);
  Gate gate;
  std::atomic<bool> inside{false};
  BOOST_TEST(aclmdlRICaptureTaskUpdateBegin(updates.handle, g.group) == 0);
  submit(
      updates, Cost::kSerial,
      [&, value] {
        inside = true;
        return gate.pass();
      },
      "step");
  submit(updates, Cost::kSerial, [&g, value] { return g.trail.add(*value); }, "step");
  BOOST_TEST(aclmdlRICaptureTaskUpdateEnd(updates.handle) == 0);
  sync(updates);
  BOOST_TEST(value.use_count() == 3);
  BOOST_TEST(aclmdlRIExecuteAsync(g.graph, g.stream.handle) == 0);
  BOOST_TEST(eventually([&] { return inside.load(); }));
  BOOST_TEST(g.update(updates, {7, 8}) == 0);  // while the replay is in the group
  sync(updates);
  BOOST_TEST(value.use_count() == 3);
  gate.open();
  sync(g.stream);
  BOOST_TEST(g.trail.take() == (Values{1, 5, 4}));
  BOOST_TEST(eventually([&] { return value.use_count() == 1; }));
  BOOST_TEST(g.replayed() == (Values{1, 7, 8, 4}));
}

BOOST_AUTO_TEST_CASE(updates_on_one_thread_and_replays_on_another) {
  Graphed g;
  constexpr int kRounds = 300;
  int failed = 0;  // of the other thread: Boost.Test's checks are one thread's
  std::thread updating([&] {
    set_current_context(Device::get(0).primary_context());
    TestStream s;
    for (int i = 1; i <= kRounds; ++i)
      failed += g.update(s, {10 * i, 10 * i + 1}, "step", i % 2 ? Cost::kTiny : Cost::kSerial) != 0;
    sync(s);
  });
  for (int i = 0; i < kRounds; ++i) {
    const Values ran = g.replayed();
    BOOST_REQUIRE(ran.size() == 4);
    BOOST_REQUIRE(ran[2] == ran[1] + 1);  // both tasks are of one update
  }
  updating.join();
  BOOST_TEST(failed == 0);
  BOOST_TEST(g.replayed() == (Values{1, 10 * kRounds, 10 * kRounds + 1, 4}));
}

BOOST_AUTO_TEST_CASE(a_stream_that_is_destroyed_in_an_update_takes_it_with_it) {
  Graphed g;
  {
    TestStream s;
    BOOST_TEST(aclmdlRICaptureTaskUpdateBegin(s.handle, g.group) == 0);
    give(s, g.trail, 5);
    BOOST_TEST(aclrtDestroyStream(s.handle) == ACL_ERROR_RT_STREAM_CAPTURED);
    destroy_stream(s.handle, true);
    s.handle = create_stream(primary(), 0, 0);
  }
  BOOST_TEST(g.replayed() == (Values{1, 2, 3, 4}));
}

BOOST_AUTO_TEST_SUITE_END()
