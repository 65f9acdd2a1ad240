// The one way to wait (softnpu/hccl/wait.h), the turnstile on top of it, and the counts that wrap around.
#include <sys/mman.h>
#include <unistd.h>

#include <boost/test/unit_test.hpp>
#include <thread>

#include "softnpu/hccl/epoch.h"

using namespace softnpu::hccl;

namespace {

struct GaveUp {};
struct Aborted {};

// Hopeless from the first look on; `seen` is called in that look.
struct Hopeless : Patience {
  explicit Hopeless(std::function<void()> seen) : seen(std::move(seen)) {}
  bool hopeless() override { return seen(), true; }
  [[noreturn]] void give_up() override { throw GaveUp(); }
  std::function<void()> seen;
};

struct Abortable : Patience {
  bool aborted() const noexcept override { return word.load() != 0; }
  [[noreturn]] void fail_aborted() const override { throw Aborted(); }
  std::atomic<int> word{0};
};

}  // namespace

BOOST_AUTO_TEST_SUITE(waiting)

BOOST_AUTO_TEST_CASE(what_was_done_before_its_maker_left_counts) {
  Signal signal;
  Hopeless patience([&] { signal.value = 1; });  // it acts between our look at the event and our look at who left
  BOOST_TEST(wait(signal, [&] { return signal.value == 1; }, patience));
}

BOOST_AUTO_TEST_CASE(a_wait_without_hope_is_given_up) {
  Signal signal;
  Hopeless patience([] {});
  BOOST_CHECK_THROW(wait(signal, [] { return false; }, patience), GaveUp);
  int pipes[2];
  BOOST_REQUIRE(pipe(pipes) == 0);
  BOOST_CHECK_THROW(wait(pipes[0], 1 /* POLLIN */, patience), GaveUp);
  BOOST_CHECK_THROW(pause(std::chrono::seconds(100), patience), GaveUp);
  close(pipes[0]), close(pipes[1]);
}

BOOST_AUTO_TEST_CASE(an_abort_ends_every_kind_of_wait) {
  Signal signal;
  int pipes[2];
  BOOST_REQUIRE(pipe(pipes) == 0);
  Abortable patience;
  std::vector<std::thread> threads;
  std::atomic<int> ended{0};
  auto ends = [&](auto body) {
    threads.emplace_back([&, body] {
      try {
        body();
      } catch (const Aborted&) {
        ++ended;
      }
    });
  };
  ends([&] { wait(signal, [] { return false; }, patience); });
  ends([&] { wait(pipes[0], 1, patience); });
  ends([&] { pause(std::chrono::hours(1), patience); });
  patience.word = 1;
  notify(signal);
  for (std::thread& t : threads) t.join();
  BOOST_TEST(ended == 3);
  close(pipes[0]), close(pipes[1]);
}

BOOST_AUTO_TEST_CASE(the_time_limit_says_what_was_missed) {
  Signal signal;
  Until patience(Clock::now() + std::chrono::milliseconds(5), [] { fail(HCCL_E_TIMEOUT, "rank 3"); });
  BOOST_CHECK_EXCEPTION(wait(
                            signal, [] { return false; }, patience),
                        Error, [](const Error& e) { return e.text == "rank 3" && e.code == HCCL_E_TIMEOUT; });
}

BOOST_AUTO_TEST_CASE(a_wait_may_be_content_with_a_while) {
  Signal signal;
  Certain patience;
  BOOST_TEST(!wait(signal, [] { return false; }, patience, Clock::now() + std::chrono::milliseconds(3)));
}

BOOST_AUTO_TEST_CASE(a_lost_wake_up_is_made_good) {
  Signal signal;
  Certain patience;
  std::thread other([&] { signal.value.store(1); });  // and notifies nobody
  BOOST_TEST(wait(signal, [&] { return signal.value == 1; }, patience));
  other.join();
}

BOOST_AUTO_TEST_CASE(who_gives_up_its_turn_holds_up_nobody) {
  Signal moved;
  Turnstile turnstile(moved);
  Certain patience;
  const uint64_t first = turnstile.take("first"), second = turnstile.take("second"), third = turnstile.take("third");
  std::atomic<bool> third_in{false};
  std::thread last([&] {
    turnstile.enter(third, patience);
    third_in = true;
    turnstile.leave(third);
  });
  turnstile.enter(first, patience);
  turnstile.leave(second);  // aborted before its turn
  BOOST_TEST(!third_in);
  BOOST_TEST(turnstile.serving_name() == "first");
  turnstile.leave(first);
  last.join();
  BOOST_TEST(third_in);
  BOOST_TEST(turnstile.serving() == third + 1);
}

BOOST_AUTO_TEST_CASE(rounds_are_complete_across_the_border) {
  for (uint32_t ranks = 1; ranks <= 9; ++ranks) {
    uint32_t arrived[kDepth];
    for (uint64_t s = kFirstSequence - kDepth; s < kFirstSequence; ++s) arrived[s % kDepth] = complete(s, ranks);
    for (uint64_t s = kFirstSequence; s < kFirstSequence + 100; ++s) {
      BOOST_TEST(!reached(arrived[s % kDepth] + ranks - 1, complete(s, ranks)));
      BOOST_TEST((arrived[s % kDepth] += ranks) == complete(s, ranks));
    }
  }
  BOOST_TEST(kFirstSequence + 100 > uint64_t{1} << 32);
}

BOOST_AUTO_TEST_SUITE_END()
