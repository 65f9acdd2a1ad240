// Random programs of several threads and streams, with random delays, against an oracle of order and drop counts: each task is
// dropped once, runs at most once and not after its drop, one at a time on its stream and in its thread's order; what nobody
// aborted or failed has run; each failure is reported, at most once to a thread, and a thread that synchronizes without an error
// has lost nothing; a wait is over only when what it waits for is.
#include <array>
#include <boost/test/unit_test.hpp>
#include <deque>
#include <memory>
#include <mutex>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "acl/types.h"
#include "softnpu/runtime/event.h"
#include "softnpu/sanitize/chaos.h"
#include "tests/runtime/cpp/fixture.h"

using namespace softnpu;

namespace {

constexpr int kThreads = 3, kStreams = 4;
constexpr int kFailure = 507099;

struct Lane {
  TestStream stream;
  std::atomic<int> inside{0};
  std::array<std::atomic<int>, kThreads> last{};  // of each thread: the number of its task that ran last
};

// One task: what is expected of it and what became of it.
struct Fate {
  Lane* lane = nullptr;
  int thread = 0, number = 0;
  bool fails = false, accepted = false;
  Fate* after = nullptr;  // must have been dropped before this one runs
  std::atomic<int> runs{0}, drops{0};
  std::atomic<const char*> wrong{nullptr};

  static int run(void* state) noexcept {
    auto* f = static_cast<Fate*>(state);
    if (f->drops) f->wrong = "ran after its drop";
    if (f->lane->inside.fetch_add(1) != 0) f->wrong = "ran beside another of its stream";
    if (f->lane->last[size_t(f->thread)].exchange(f->number) >= f->number) f->wrong = "ran out of order";
    if (f->after && f->after->drops == 0) f->wrong = "did not wait";
    f->runs++;
    f->lane->inside--;
    return f->fails ? kFailure : 0;
  }
  static void drop(void* state) noexcept { static_cast<Fate*>(state)->drops++; }
};

struct Program {
  explicit Program(unsigned seed) : seed(seed) {
    std::mt19937 random(seed);
    failures = random() % 2;
    aborts = random() % 3 == 0;
    waits = !failures && !aborts;
    for (Lane& lane : lanes) {
      for (auto& n : lane.last) n = -1;
      lane.stream->set_priority(random() % 8);
    }
  }

  const unsigned seed;
  bool failures, aborts, waits;
  std::array<Lane, kStreams> lanes;
  std::array<std::deque<Fate>, kThreads> fates;
  std::atomic<int> reports{0};

  void reported(const Error& e) {
    if (e.code == kFailure) ++reports;
  }

  void run_thread(int me) {
    std::mt19937 random(seed * 31 + unsigned(me));
    auto& mine = fates[size_t(me)];
    const Cost costs[] = {Cost::kTiny, Cost::kTiny, Cost::kSerial, Cost::kWide, Cost::kBlocking, Cost::kHost};
    std::array<std::vector<Fate*>, kStreams> unsure;  // of each stream: tasks since the last report to this thread
    std::array<Fate*, kStreams> awaits{};             // what each stream's next task of this thread must find done
    auto give = [&](Lane& lane) {
      Fate& f = mine.emplace_back();
      f.lane = &lane;
      f.thread = me;
      f.number = int(mine.size());
      f.fails = failures && random() % 40 == 0;
      f.after = std::exchange(awaits[size_t(&lane - lanes.data())], nullptr);
      try {
        lane.stream->submit(Work({Fate::run, Fate::drop, &f, "fate", costs[random() % 6]}));
        f.accepted = true;
        unsure[size_t(&lane - lanes.data())].push_back(&f);
      } catch (const Error&) {
      }
      return &f;
    };
    auto synchronize = [&](Lane& lane) {
      auto& tasks = unsure[size_t(&lane - lanes.data())];
      try {
        sync(lane.stream);
        for (Fate* f : tasks)
          if (!aborts && (f->runs != 1 || f->fails)) f->wrong = "was lost without a word";
        tasks.clear();
      } catch (const Error&) {
        tasks.clear();
        throw;
      }
    };
    const int steps = 30 + int(random() % 400);
    for (int i = 0; i < steps; ++i) {
      Lane& lane = lanes[random() % kStreams];
      const unsigned what = random() % 64;
      try {
        if (what == 0) {
          synchronize(lane);
        } else if (what == 1) {
          lane.stream->wait_for(lane.stream->tail(), deadline_after_ms(1));
        } else if (what == 2 && aborts) {
          lane.stream->abort();
        } else if (what == 3) {
          lane.stream->set_priority(random() % 8);
        } else if (what < 12 && waits) {
          Lane& source = lanes[random() % kStreams];
          if (&source == &lane) continue;
          Event* e = slab<Event>().take();
          e->open(random() % 2 ? ACL_EVENT_TIME_LINE : ACL_EVENT_SYNC);
          void* handle = slab<Event>().publish(e);
          Fate* last = give(source);
          e->record(source.stream);
          e->wait_on(lane.stream);
          awaits[size_t(&lane - lanes.data())] = last;
          give(lane);
          if (random() % 8 == 0) {
            e->synchronize(kForever);
            if (last->drops != 1) last->wrong = "was not done when its event was";
          }
          slab<Event>().remove(handle);
          e->open(0);
          slab<Event>().recycle(e);
        } else {
          give(lane);
        }
      } catch (const Error& e) {
        reported(e);
      }
    }
    for (Lane& lane : lanes) {
      try {
        synchronize(lane);
      } catch (const Error& e) {
        reported(e);
      }
    }
  }

  void run() {
    std::vector<std::thread> threads;
    for (int t = 0; t < kThreads; ++t)
      threads.emplace_back([this, t] {
        set_current_context(Device::get(0).primary_context());
        run_thread(t);
      });
    for (auto& t : threads) t.join();
    for (Lane& lane : lanes) {
      try {
        sync(lane.stream);
      } catch (const Error& e) {
        reported(e);
      }
    }
    int failed = 0;
    for (auto& of_thread : fates)
      for (Fate& f : of_thread) {
        failed += f.fails && f.runs;
        const char* wrong = f.wrong;
        if (f.drops != 1) wrong = "was not dropped exactly once";
        if (f.runs > 1) wrong = "ran twice";
        if (!f.accepted && f.runs) wrong = "ran though it was refused";
        if (!failures && !aborts && f.runs != 1) wrong = "did not run";
        BOOST_TEST(wrong == nullptr, "seed " << seed << ": task " << f.number << " of thread " << f.thread << " "
                                             << (wrong ? wrong : ""));
      }
    BOOST_TEST((reports >= failed && reports <= failed * kThreads),
               "seed " << seed << ": " << failed << " failures, " << reports << " reports");
  }
};

}  // namespace

BOOST_AUTO_TEST_SUITE(test_random)

BOOST_AUTO_TEST_CASE(random_programs_keep_order_and_ownership) {
  const char* text = getenv("ANYCEND_CHAOS");
  const unsigned first = text ? unsigned(atoi(text)) : 1;
  sanitize::start_chaos(first);
  for (unsigned seed = first; seed < first + 60; ++seed) std::make_unique<Program>(seed)->run();
}

BOOST_AUTO_TEST_SUITE_END()
