// The race detector below the C ABI: which bytes of views overlap, what memory remembers, and edges told by real streams and events.
#include "softnpu/race/race.h"

#include <boost/test/unit_test.hpp>
#include <string>
#include <thread>
#include <vector>

#include "softnpu/race/accesses.h"
#include "softnpu/race/shadow.h"
#include "softnpu/runtime/watch.h"
#include "tests/runtime/cpp/touching.h"

using namespace softnpu;
using race::Access;
using race::Accesses;

namespace {

Access view(uintptr_t begin, std::vector<int64_t> sizes, std::vector<int64_t> strides, bool write = true) {
  Accesses one;
  Access::add(one, reinterpret_cast<void*>(begin), int(sizes.size()), sizes.data(), strides.data(), 4, write);
  BOOST_REQUIRE_EQUAL(one.size(), 1u);
  return one[0];
}

bool overlap(const Access& a, const Access& b) { return race::overlap(a, b, 0, INTPTR_MAX); }

uint64_t found() {
  static uint64_t before = 0;
  const uint64_t now = race::found(), fresh = now - before;
  before = now;
  return fresh;
}

char memory[4096];

// Each test begins with memory that nobody has touched: what the tests before it did on streams that are gone was never waited for.
struct On {
  On() {
    race::start(false);
    race::freed(memory, sizeof memory);
    found();
  }
};

}  // namespace

BOOST_AUTO_TEST_SUITE(test_race)

BOOST_AUTO_TEST_CASE(dense_views_are_one_run_whatever_their_order_of_dimensions) {
  const Access a = view(1000, {3, 4}, {4, 1});
  BOOST_TEST(!a.pattern);
  BOOST_TEST(a.end == 1048u);
  BOOST_TEST(!view(1000, {4, 3}, {1, 4}).pattern);
  BOOST_TEST(view(1000, {5, 3}, {0, 1}).end == 1012u);
  Accesses none;
  const int64_t size = 0, stride = 1;
  Access::add(none, memory, 1, &size, &stride, 4, true);
  BOOST_TEST(none.empty());
}

BOOST_AUTO_TEST_CASE(columns_overlap_only_where_they_share_one) {
  const auto columns = [](int from, int n) { return view(1000 + 4 * from, {100, n}, {8, 1}); };
  BOOST_TEST(overlap(columns(0, 4), columns(3, 2)));
  BOOST_TEST(!overlap(columns(0, 4), columns(4, 4)));
  BOOST_TEST(!overlap(columns(0, 1), columns(7, 1)));
  BOOST_TEST(overlap(columns(2, 1), view(1000, {800}, {1})));
  BOOST_TEST(!overlap(columns(2, 1), view(1000, {2}, {1})));
  BOOST_TEST(overlap(columns(2, 1), view(1000 + 8 * 4 * 99, {3}, {1})));
  BOOST_TEST(!overlap(view(1000, {2, 3}, {40, 2}), view(1004, {2, 3}, {40, 2})));
  BOOST_TEST(overlap(view(1000, {2, 3}, {40, 2}), view(1000 + 160 + 16, {1}, {1})));
}

// Against the definition, on views drawn at random.
BOOST_AUTO_TEST_CASE(overlap_is_what_the_bytes_say) {
  uint64_t state = 1;
  const auto draw = [&](int64_t most) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    return 1 + int64_t((state >> 33) % uint64_t(most));
  };
  const auto bytes = [](const Access& a) {
    std::vector<bool> set(40000);
    const race::Pattern dense{};
    const race::Pattern& p = a.pattern ? *a.pattern : dense;
    const auto mark = [&](auto&& self, int dim, uintptr_t at) -> void {
      if (dim < p.dims) {
        for (int64_t i = 0; i < p.sizes[dim]; ++i) self(self, dim + 1, at + uintptr_t(i * p.strides[dim]));
        return;
      }
      const uintptr_t end = a.pattern ? at + uintptr_t(p.run) : a.end;
      for (; at < end; ++at) set[at] = true;
    };
    mark(mark, 0, a.begin);
    return set;
  };
  for (int i = 0; i < 2000; ++i) {
    const Access a = view(uintptr_t(4 * draw(40)), {draw(4), draw(5), draw(6)}, {draw(60), draw(20), draw(4)});
    const Access b = view(uintptr_t(4 * draw(40)), {draw(4), draw(5), draw(6)}, {draw(60), draw(20), draw(4)});
    const auto in_a = bytes(a), in_b = bytes(b);
    bool both = false;
    for (size_t at = 0; at < in_a.size(); ++at) both = both || (in_a[at] && in_b[at]);
    BOOST_TEST(overlap(a, b) == both, "views " << i);
    BOOST_TEST(overlap(b, a) == both, "views " << i);
  }
}

// Against all that was ever touched: three lanes and the host, which wait for each other at random.
BOOST_AUTO_TEST_CASE(memory_remembers_as_much_as_if_it_kept_everything) {
  uint64_t state = 7;
  const auto draw = [&](uint64_t n) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (state >> 33) % n;
  };
  for (int round = 0; round < 30; ++round) {
    race::Shadow shadow;
    std::vector<race::Touch> all;
    std::vector<race::Clock> lanes(4);
    int conflicts = 0, mistakes = 0;
    for (int i = 0; i < 1000; ++i) {
      const auto lane = static_cast<uint32_t>(draw(4));  // 0: the host
      race::Clock& clock = lanes[lane];
      if (draw(6) == 0) clock.join(lanes[draw(4)]);
      clock.join(lanes[0]);
      const auto action = std::make_shared<const race::Action>(race::Action{lane, clock.tick(lane), "", nullptr});
      const uintptr_t row = 4096 + 64 * draw(16), column = 4096 + 4 * draw(16);
      const bool write = draw(2) == 0;
      const auto length = static_cast<int64_t>(1 + draw(16));
      const Access kinds[] = {view(row, {length}, {1}, write), view(column, {length}, {16}, write),
                              view(row, {256}, {1}, write), view(column, {length, 3}, {32, 2}, write)};
      const race::Touch now{action, kinds[draw(40) == 0 ? 2 : draw(10) == 0 ? 3 : draw(2)], nullptr};
      bool is = false, said = false;
      for (const race::Touch& earlier : all)
        is = is || ((write || earlier.access.write) && clock.of(earlier.action->lane) < earlier.action->time &&
                    overlap(now.access, earlier.access));
      shadow.touch(now, clock, lanes[0], [&](const race::Touch&) { said = true; });
      all.push_back(now);
      conflicts += is;
      mistakes += is != said;
    }
    BOOST_TEST(mistakes == 0);
    BOOST_TEST(conflicts > 50);
    BOOST_TEST(conflicts < 950);
    BOOST_TEST(!shadow.lost());
  }
}

BOOST_AUTO_TEST_CASE(more_views_than_are_kept_are_told_of) {
  race::Shadow shadow;
  race::Clock clock;
  const race::Clock host;
  for (int i = 0; i < 40000; ++i) {
    const auto action = std::make_shared<const race::Action>(race::Action{1, clock.tick(1), "", nullptr});
    const int many = i < 20000 ? 100 : i;  // the first are one and the same
    shadow.touch({action, view(4096, {many, 2}, {4, 1}), nullptr}, clock, host, [](const race::Touch&) {});
    if (i == 25000) BOOST_TEST(!shadow.lost());
  }
  BOOST_TEST(shadow.lost());
}

BOOST_AUTO_TEST_CASE(two_streams_need_an_event) {
  const On on;
  TestStream a, b;
  TestEvent e;
  touch(a, "w1", memory, true);
  touch(b, "r1", memory, false);
  BOOST_TEST(found() == 1u);
  BOOST_TEST(std::string(race::report(race::found() - 1)).find("r1 and w1 touch the same memory") == 0u);
  sync(a), sync(b);
  touch(a, "w2", memory, true);
  e->record(a);
  e->wait_on(b);
  touch(b, "r2", memory, false);
  touch(a, "r3", memory, false);      // two readers
  touch(b, "w3", memory + 64, true);  // other bytes
  BOOST_TEST(found() == 0u);
  touch(a, "w4", memory + 32, true);  // r2 is not waited for
  BOOST_TEST(found() == 2u);          // r2 and w3
}

BOOST_AUTO_TEST_CASE(the_host_orders_what_it_has_waited_for) {
  const On on;
  TestStream a, b;
  TestEvent e;
  touch(a, "h1", memory + 512, true);
  sync(b);
  BOOST_TEST(found() == 0u);
  touch(b, "h2", memory + 512, true);
  BOOST_TEST(found() == 1u);
  sync(a), sync(b);
  touch(b, "h3", memory + 512, true);
  e->record(b);
  e->synchronize(kForever);
  touch(a, "h4", memory + 512, true);
  e->record(a);
  BOOST_TEST(eventually([&] { return e->done(); }));
  touch(b, "h5", memory + 512, true);
  BOOST_TEST(found() == 0u);
}

BOOST_AUTO_TEST_CASE(edges_pass_through_a_third_stream) {
  const On on;
  TestStream a, b, c;
  TestEvent e, f;
  touch(a, "t1", memory + 1024, true);
  e->record(a);
  e->wait_on(b);
  f->record(b);
  f->wait_on(c);
  touch(c, "t2", memory + 1024, true);
  BOOST_TEST(found() == 0u);
}

BOOST_AUTO_TEST_CASE(memory_that_was_freed_begins_anew) {
  const On on;
  TestStream a, b;
  touch(a, "f1", memory + 2048, true);
  race::freed(memory + 2048, 64);
  touch(b, "f2", memory + 2048, true);
  BOOST_TEST(found() == 0u);
}

BOOST_AUTO_TEST_CASE(a_block_given_out_again_names_its_remedy) {
  const On on;
  TestStream a, b;
  race::given(memory + 3072, 64, named(a));
  touch(b, "g1", memory + 3072, false);
  race::given(memory + 3072, 64, named(a));
  touch(a, "g2", memory + 3072, true);
  BOOST_TEST(found() == 1u);
  BOOST_TEST(std::string(race::report(race::found() - 1)).find("call record_stream") != std::string::npos);
}

// A flag that is waited for before it is recorded: nothing is known between the two.
BOOST_AUTO_TEST_CASE(an_event_that_is_recorded_later_is_an_edge_then) {
  const On on;
  TestStream a, b;
  const int key = 0;
  race::waited(&key, named(b), true);
  touch(b, "l1", memory + 3200, true);
  touch(a, "l2", memory + 3200, true);
  race::recorded(&key, named(a));
  touch(b, "l3", memory + 3200, true);
  BOOST_TEST(found() == 0u);
}

BOOST_AUTO_TEST_CASE(threads_may_tell_at_once) {
  const On on;
  TestStream a;
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i)
    threads.emplace_back([&, i] {
      primary();
      TestStream own;
      TestEvent e;
      for (int k = 0; k < 500; ++k) {
        race::set_place("line");
        touch(own, "own", memory + 256 * i, k % 2, 256);
        touch(a, "shared", memory + 3500, true);
        e->record(own);
        e->wait_on(a);
        if (k % 50 == 0) sync(own);
      }
    });
  for (auto& t : threads) t.join();
  BOOST_TEST(found() == 0u);
}

BOOST_AUTO_TEST_SUITE_END()
