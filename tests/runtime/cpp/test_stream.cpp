#include "softnpu/runtime/stream.h"

#include <boost/test/unit_test.hpp>
#include <thread>
#include <vector>

#include "softnpu/runtime/enqueue.h"
#include "tests/runtime/cpp/fixture.h"

using namespace softnpu;

BOOST_AUTO_TEST_SUITE(test_stream)

BOOST_AUTO_TEST_CASE(a_tiny_task_on_an_idle_stream_runs_on_its_caller) {
  TestStream s;
  // A previous user of the stream's slot may have left its worker about to sleep: then the first try may be queued.
  BOOST_TEST(eventually([&] {
    std::thread::id where;
    submit(s, Cost::kTiny, [&] {
      where = std::this_thread::get_id();
      return 0;
    });
    bool idle = s->idle();
    sync(s);
    return idle && where == std::this_thread::get_id();
  }));
}

BOOST_AUTO_TEST_CASE(a_tiny_task_behind_others_waits_its_turn) {
  TestStream s;
  Gate gate;
  std::atomic<bool> ran{false};
  submit(s, Cost::kHost, [&] { return gate.pass(); });
  submit(s, Cost::kTiny, [&] {
    ran = true;
    return 0;
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(5));
  BOOST_TEST(!ran);
  BOOST_TEST(!s->idle());
  gate.open();
  sync(s);
  BOOST_TEST(ran);
}

BOOST_AUTO_TEST_CASE(an_inline_task_that_enqueues_nothing_else_lets_no_other_overtake_it) {
  TestStream s;
  std::atomic<bool> inside{false};
  Gate gate;
  std::vector<int> order;
  std::thread first([&] {
    submit(s, Cost::kTiny, [&] {
      inside = true;
      gate.pass();
      order.push_back(1);
      return 0;
    });
  });
  BOOST_TEST(eventually([&] { return inside.load(); }));
  submit(s, Cost::kTiny, [&] {
    order.push_back(2);
    return 0;
  });
  BOOST_TEST(!s->idle());
  gate.open();
  first.join();
  sync(s);
  BOOST_TEST(order == (std::vector<int>{1, 2}), boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(every_cost_keeps_the_order) {
  TestStream s;
  std::vector<int> order;
  const Cost costs[] = {Cost::kTiny,     Cost::kSerial, Cost::kWide, Cost::kHost,
                        Cost::kBlocking, Cost::kSerial, Cost::kTiny, Cost::kWide};
  for (int i = 0; i < 2000; ++i)
    submit(s, costs[i % 8], [&, i] {
      order.push_back(i);
      return 0;
    });
  sync(s);
  BOOST_TEST(order.size() == 2000u);
  BOOST_TEST(std::is_sorted(order.begin(), order.end()));
}

BOOST_AUTO_TEST_CASE(wide_tasks_run_on_the_compute_thread_only) {
  TestStream s, t;
  std::atomic<int> elsewhere{0};
  for (int i = 0; i < 50; ++i)
    for (Stream* x : {&s.stream, &t.stream})
      submit(*x, Cost::kWide, [&] {
        elsewhere += !on_compute_thread();
        return 0;
      });
  sync(s);
  sync(t);
  BOOST_TEST(elsewhere == 0);
}

// Makes a stream's serial tasks the compute thread's, and keeps that busy: only a caller can run them.
class NobodyElse {
 public:
  explicit NobodyElse(Stream& stream) {
    submit(stream, Cost::kWide, [] { return 0; });
    sync(stream);
    submit(other_, Cost::kWide, [this] {
      inside_ = true;
      return gate_.pass();
    });
    BOOST_TEST_REQUIRE(eventually([this] { return inside_.load(); }));
  }
  void leave() {
    gate_.open();
    sync(other_);
  }
  ~NobodyElse() { leave(); }

 private:
  TestStream other_;
  Gate gate_;
  std::atomic<bool> inside_{false};
};

// Counts where it is called that its task ran on the thread that made it.
std::function<int()> counting(std::atomic<int>& here) {
  return [&here, me = std::this_thread::get_id()] {
    here += std::this_thread::get_id() == me;
    return 0;
  };
}

BOOST_AUTO_TEST_CASE(a_synchronizing_caller_helps) {
  for (int64_t deadline : {kForever, deadline_after_ms(100'000)}) {
    TestStream s;
    NobodyElse held(s);
    std::atomic<int> here{0};
    for (int i = 0; i < 4; ++i) submit(s, Cost::kSerial, counting(here));
    s->synchronize(deadline, 507046);
    BOOST_TEST(here == 4);
  }
}

BOOST_AUTO_TEST_CASE(a_caller_blocks_in_a_task_only_when_it_waits_without_a_deadline) {
  TestStream s;
  NobodyElse held(s);
  std::atomic<int> here{0};
  const auto submit_both = [&] {
    submit(s, Cost::kSerial, counting(here));
    submit(s, Cost::kBlocking, counting(here));
  };
  submit_both();
  sync(s);
  BOOST_TEST(here == 2);
  submit_both();
  BOOST_CHECK_THROW(s->synchronize(deadline_after_ms(20), 507046), Error);
  BOOST_TEST(here == 3);
  held.leave();
  s->synchronize(deadline_after_ms(100'000), 507046);
  BOOST_TEST(here == 3);
}

BOOST_AUTO_TEST_CASE(a_caller_that_blocks_in_a_task_holds_up_no_other_stream) {
  // As when two ranks of one process wait for each other: the second one's kernel must run while the first one's caller waits.
  TestStream s, t;
  Gate gate;
  std::atomic<bool> blocked{false};
  NobodyElse held(s);
  submit(s, Cost::kSerial, [] { return 0; });  // the compute thread's, when it comes to it
  submit(s, Cost::kBlocking, [&] {
    blocked = true;
    return gate.pass();
  });
  std::thread caller([&] { sync(s); });
  BOOST_TEST_REQUIRE(eventually([&] { return blocked.load(); }));
  held.leave();
  submit(t, Cost::kWide, [] { return 0; });
  BOOST_CHECK_NO_THROW(t->synchronize(deadline_after_ms(10'000), 507046));
  gate.open();
  caller.join();
  sync(t);
}

BOOST_AUTO_TEST_CASE(helping_never_runs_host_callbacks) {
  TestStream s;
  std::atomic<int> here{0};
  for (int i = 0; i < 300; ++i) {
    for (int k = 0; k < 4; ++k) submit(s, Cost::kHost, counting(here));
    sync(s);
  }
  BOOST_TEST(here == 0);
}

BOOST_AUTO_TEST_CASE(several_producers_each_in_order) {
  TestStream s;
  constexpr int kProducers = 3, kEach = 3000;
  std::vector<int> next(kProducers, 0);
  std::atomic<bool> ordered{true};
  std::vector<std::thread> producers;
  for (int p = 0; p < kProducers; ++p)
    producers.emplace_back([&, p] {
      for (int i = 0; i < kEach; ++i) {
        submit(s, i % 3 == 2 ? Cost::kSerial : Cost::kTiny, [&, p, i] {
          if (next[size_t(p)]++ != i) ordered = false;
          return 0;
        });
        if (i % 500 == 0) sync(s);
      }
    });
  for (auto& t : producers) t.join();
  sync(s);
  BOOST_TEST(ordered);
  for (int n : next) BOOST_TEST(n == kEach);
}

BOOST_AUTO_TEST_CASE(a_full_ring_helps_or_waits) {
  TestStream s;
  std::atomic<int> ran{0};
  for (int i = 0; i < 5 * int(Ring::kCapacity); ++i)
    submit(s, Cost::kSerial, [&] {
      ++ran;
      return 0;
    });
  sync(s);
  BOOST_TEST(ran == 5 * int(Ring::kCapacity));
}

BOOST_AUTO_TEST_CASE(a_full_ring_behind_a_host_task_waits_for_it) {
  TestStream s;
  Gate gate;
  std::atomic<int> ran{0};
  submit(s, Cost::kHost, [&] { return gate.pass(); });
  std::thread opener([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    gate.open();
  });
  for (int i = 0; i < 2 * int(Ring::kCapacity); ++i)
    submit(s, Cost::kSerial, [&] {
      ++ran;
      return 0;
    });
  sync(s);
  opener.join();
  BOOST_TEST(ran == 2 * int(Ring::kCapacity));
}

BOOST_AUTO_TEST_CASE(a_failure_sticks_until_a_synchronizing_call) {
  TestStream s;
  BOOST_TEST(submit(
                 s, Cost::kTiny,
                 [] {
                   set_error_message("seven");
                   return 7;
                 },
                 "op") == 0);
  BOOST_TEST(eventually([&] { return s->failed(); }));
  bool ran = false;
  BOOST_CHECK_EXCEPTION(submit(s, Cost::kTiny,
                               [&] {
                                 ran = true;
                                 return 0;
                               }),
                        Error, [](const Error& e) { return e.code == 7; });
  BOOST_CHECK_EXCEPTION(sync(s), Error,
                        [](const Error& e) { return e.code == 7 && e.message == "op failed on device 0: seven"; });
  BOOST_TEST(!ran);
  sync(s);
  submit(s, Cost::kTiny, [&] {
    ran = true;
    return 0;
  });
  sync(s);
  BOOST_TEST(ran);
}

BOOST_AUTO_TEST_CASE(after_a_queued_failure_later_tasks_are_skipped_but_dropped) {
  TestStream s;
  Gate gate;
  auto alive = std::make_shared<int>(0);
  bool ran = false;
  submit(s, Cost::kHost, [&] { return gate.pass(); });
  submit(s, Cost::kSerial, [] { return 9; });
  submit(s, Cost::kSerial, [&ran, alive] {
    ran = true;
    return 0;
  });
  BOOST_TEST(alive.use_count() == 2);
  gate.open();
  BOOST_CHECK_EXCEPTION(sync(s), Error, [](const Error& e) { return e.code == 9; });
  BOOST_TEST(!ran);
  BOOST_TEST(alive.use_count() == 1);
}

BOOST_AUTO_TEST_CASE(continue_on_failure_goes_on) {
  TestStream s;
  s->set_continue_on_failure(true);
  bool ran = false;
  submit(s, Cost::kTiny, [] { return 3; });
  submit(s, Cost::kTiny, [&] {
    ran = true;
    return 0;
  });
  BOOST_CHECK_THROW(sync(s), Error);
  BOOST_TEST(ran);
}

BOOST_AUTO_TEST_CASE(synchronizing_gives_up_at_the_deadline) {
  TestStream s;
  Gate gate;
  submit(s, Cost::kHost, [&] { return gate.pass(); });
  BOOST_CHECK_EXCEPTION(s->synchronize(deadline_after_ms(10), 507046), Error,
                        [](const Error& e) { return e.code == 507046; });
  gate.open();
  sync(s);
}

BOOST_AUTO_TEST_CASE(destroying_waits_and_by_force_drops) {
  auto alive = std::make_shared<int>(0);
  std::atomic<int> ran{0};
  {
    TestStream s;
    for (int i = 0; i < 10; ++i)
      submit(s, Cost::kHost, [&ran, alive] {
        ++ran;
        return 0;
      });
  }
  BOOST_TEST(ran == 10);
  BOOST_TEST(alive.use_count() == 1);
  void* forced = create_stream(primary(), 0, 0);
  Stream& s = slab<Stream>().get(forced);
  Gate gate;
  submit(s, Cost::kHost, [&] { return gate.pass(); });
  submit(s, Cost::kHost, [&ran, alive] {
    ++ran;
    return 0;
  });
  std::thread opener([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
    gate.open();
  });
  destroy_stream(forced, true);
  opener.join();
  BOOST_TEST(ran == 10);
  BOOST_TEST(alive.use_count() == 1);
  BOOST_CHECK_EXCEPTION(slab<Stream>().get(forced), Error, [](const Error& e) { return e.code == 107017; });
}

BOOST_AUTO_TEST_CASE(streams_overlap) {
  // Each waits for the other: this ends only if both run at once.
  TestStream a, b;
  Gate one, two;
  submit(a, Cost::kHost, [&] {
    one.open();
    return two.pass();
  });
  submit(b, Cost::kHost, [&] {
    two.open();
    return one.pass();
  });
  sync(a);
  sync(b);
}

BOOST_AUTO_TEST_CASE(run_now_needs_an_idle_stream) {
  TestStream s;
  bool ran = false;
  BOOST_TEST(eventually([&] { return s->run_now([&] { ran = true; }); }));
  BOOST_TEST(ran);
  Gate gate;
  submit(s, Cost::kHost, [&] { return gate.pass(); });
  BOOST_TEST(!s->run_now([] {}));
  gate.open();
  sync(s);
}

BOOST_AUTO_TEST_SUITE_END()
