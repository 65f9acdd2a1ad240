#include "softnpu/runtime/ring.h"

#include <array>
#include <boost/test/unit_test.hpp>
#include <set>
#include <thread>
#include <vector>

#include "softnpu/runtime/token.h"

using namespace softnpu;

namespace {

int nothing(void*) noexcept { return 0; }
Task task(void* state) { return {nothing, nullptr, state, "test", Cost::kSerial}; }

}  // namespace

BOOST_AUTO_TEST_SUITE(test_ring)

BOOST_AUTO_TEST_CASE(tasks_come_out_in_order_with_their_payload) {
  Ring r;
  for (int i = 0; i < 5; ++i) BOOST_TEST(r.push(Work(task(nullptr), i)));
  for (int i = 0; i < 5; ++i) {
    Work* w = r.front();
    BOOST_REQUIRE(w);
    BOOST_TEST(w->payload<int>() == i);
    BOOST_TEST(r.done() == uint64_t(i));
    r.pop();
  }
  BOOST_TEST(r.empty());
  BOOST_TEST(r.front() == nullptr);
}

BOOST_AUTO_TEST_CASE(a_full_ring_refuses) {
  Ring r;
  int x;
  for (uint64_t i = 0; i < Ring::kCapacity; ++i) BOOST_TEST(r.push(Work(task(&x))));
  BOOST_TEST(!r.push(Work(task(&x))));
  r.front();
  r.pop();
  BOOST_TEST(r.push(Work(task(&x))));
}

BOOST_AUTO_TEST_CASE(inline_needs_an_empty_ring_and_counts_as_a_position) {
  Ring r;
  int x;
  BOOST_TEST(r.claim_inline());
  BOOST_TEST(r.tail() == 1u);
  BOOST_TEST(r.done() == 0u);
  BOOST_TEST(r.front() == nullptr);  // the claimed position is no queued task
  r.push(Work(task(&x)));            // behind the inline one
  r.finish_inline();
  BOOST_TEST(r.front() != nullptr);
  BOOST_TEST(!r.claim_inline());
}

BOOST_AUTO_TEST_CASE(a_lock_keeps_all_out_but_its_holder) {
  Ring r;
  int x;
  BOOST_TEST(r.push(Work(task(&x))));
  BOOST_TEST(r.try_lock());
  BOOST_TEST(!r.try_lock());
  BOOST_TEST(r.tail() == 1u);
  BOOST_TEST(!r.push(Work(task(&x))));
  BOOST_TEST(r.push(Work(task(&x)), true));
  BOOST_TEST(r.front() != nullptr);
  r.pop();
  r.pop();
  BOOST_TEST(r.empty());
  BOOST_TEST(!r.claim_inline());
  BOOST_TEST(r.claim_inline(true));
  r.finish_inline();
  r.unlock();
  BOOST_TEST(r.tail() == 3u);
  BOOST_TEST(r.push(Work(task(&x))));
}

BOOST_AUTO_TEST_CASE(several_producers_lose_nothing_and_keep_their_own_order) {
  Ring r;
  constexpr int kProducers = 3, kEach = 5000;
  std::vector<std::thread> producers;
  for (int p = 0; p < kProducers; ++p)
    producers.emplace_back([&, p] {
      for (int i = 0; i < kEach; ++i) {
        while (!r.push(Work(task(nullptr), std::array{p, i}))) std::this_thread::yield();
      }
    });
  int next[kProducers] = {};
  bool ordered = true;
  for (int n = 0; n < kProducers * kEach;) {
    Work* w = r.front();
    if (!w) {
      std::this_thread::yield();
      continue;
    }
    auto [producer, number] = w->payload<std::array<int, 2>>();
    ordered = ordered && number == next[producer]++;
    r.pop();
    ++n;
  }
  for (auto& t : producers) t.join();
  BOOST_TEST(ordered);
  BOOST_TEST(r.empty());
}

BOOST_AUTO_TEST_CASE(a_replay_goes_beside_a_full_ring_and_takes_no_room) {
  Ring r;
  constexpr int kReplayed = 3000;
  int next = 0;
  const auto number = [&] { return Work(task(nullptr), next++); };
  while (r.push(number())) {
  }
  --next;
  BOOST_TEST(!r.push_beside(number(), false, false));  // full of what is no replay
  --next;
  BOOST_TEST(r.try_lock());
  BOOST_TEST(!r.push_beside(number(), false, true));  // locked by somebody else
  --next;
  for (int i = 0; i < kReplayed; ++i) BOOST_REQUIRE(r.push_beside(number(), true, true));
  r.unlock();
  BOOST_TEST(r.full());
  BOOST_TEST(r.replayed_beside() == uint64_t(kReplayed));
  BOOST_TEST(r.tail() == Ring::kCapacity + kReplayed);
  for (int i = 0; i < next; ++i) {
    if (i == 10)  // ten are done: so much room is there behind the replay, whatever it has queued
      for (int k = 0; k < 11; ++k) {
        BOOST_TEST(!r.push(Work(task(nullptr), next)));
        const bool there_is = r.push_beside(Work(task(nullptr), next), false, false);
        BOOST_TEST(there_is == (k < 10));
        BOOST_TEST(r.full() == (k >= 9));  // a host callback of the stream is refused where it is
        next += there_is;
      }
    Work* w = r.front();
    BOOST_REQUIRE(w);
    BOOST_REQUIRE(w->payload<int>() == i);
    r.pop();
  }
  BOOST_TEST(r.empty());
  BOOST_TEST(r.replayed_beside() == 0u);
  BOOST_TEST(!r.push_beside(Work(task(nullptr), 0), false, false));
}

BOOST_AUTO_TEST_CASE(a_ring_without_room_for_another_replay_is_full) {
  Ring r;
  for (uint64_t i = 0; i <= Ring::kReplayed; ++i) {
    BOOST_REQUIRE(!r.full(true));
    BOOST_REQUIRE(r.push_beside(Work(task(nullptr), 0), false, true));
  }
  BOOST_TEST(r.full(true));
  BOOST_TEST(!r.full());  // for a plain task there is room
}

BOOST_AUTO_TEST_CASE(what_lies_beside_is_dropped_with_the_ring) {
  static int dropped = 0;
  {
    Ring r;
    for (int i = 0; i < 5; ++i)
      BOOST_TEST(r.push_beside(Work({nothing, [](void*) noexcept { ++dropped; }, nullptr, "test", Cost::kSerial}),
                               false, true));
  }
  BOOST_TEST(dropped == 5);
}

// A producer of replays, which go beside, and two that wait for room: all in the order of their calls.
BOOST_AUTO_TEST_CASE(replays_and_others_keep_their_order) {
  Ring r;
  constexpr int kEach = 6000, kUnit = 1500;
  std::vector<std::thread> producers;
  for (int p = 0; p < 3; ++p)
    producers.emplace_back([&, p] {
      for (int i = 0; i < kEach; ++i) {
        const std::array payload{p, i};
        if (p == 0 && i % kUnit == 0)
          while (!r.try_lock()) std::this_thread::yield();
        while (!r.push(Work(task(nullptr), payload), p == 0) &&
               !r.push_beside(Work(task(nullptr), payload), p == 0, p == 0))
          std::this_thread::yield();
        if (p == 0 && (i + 1) % kUnit == 0) r.unlock();
      }
    });
  int next[3] = {};
  bool ordered = true, together = true;
  for (int n = 0; n < 3 * kEach;) {
    Work* w = r.front();
    if (!w) {
      std::this_thread::yield();
      continue;
    }
    const auto [producer, number] = w->payload<std::array<int, 2>>();
    ordered = ordered && number == next[producer]++;
    together = together && (producer == 0 || next[0] % kUnit == 0);  // nothing between the tasks of a replay
    r.pop();
    ++n;
  }
  for (auto& t : producers) t.join();
  BOOST_TEST(ordered);
  BOOST_TEST(together);
  BOOST_TEST(r.empty());
}

BOOST_AUTO_TEST_CASE(progress_wakes_each_waiter_at_its_number) {
  Progress p;
  std::atomic<int> woken{0};
  std::vector<std::thread> waiters;
  for (uint64_t target : {3, 1, 2})
    waiters.emplace_back([&, target] {
      if (p.wait(target, kForever, 0) && p.done() >= target) ++woken;
    });
  for (uint64_t i = 1; i <= 3; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    p.advance(i);
  }
  for (auto& t : waiters) t.join();
  BOOST_TEST(woken == 3);
}

BOOST_AUTO_TEST_CASE(progress_gives_up_at_the_deadline) {
  Progress p;
  BOOST_TEST(!p.wait(1, deadline_after_ms(5), 0));
}

BOOST_AUTO_TEST_CASE(token_is_held_by_one_at_a_time) {
  Token token;
  long plain = 0;
  std::vector<std::thread> threads;
  for (int t = 0; t < 3; ++t)
    threads.emplace_back([&] {
      for (int i = 0; i < 3000; ++i) {
        token.take(kForever);
        ++plain;
        token.release();
      }
    });
  for (auto& t : threads) t.join();
  BOOST_TEST(plain == 9000);
  BOOST_TEST(token.try_take());
  BOOST_TEST(!token.try_take());
}

BOOST_AUTO_TEST_SUITE_END()
