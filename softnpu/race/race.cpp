// See race.h. Long because all that the runtime tells goes through one lock to one detector.
#include "softnpu/race/race.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <tuple>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "softnpu/race/clock.h"
#include "softnpu/race/meeting.h"
#include "softnpu/race/peers.h"
#include "softnpu/race/report.h"
#include "softnpu/race/shadow.h"

namespace softnpu::race {
namespace {

constexpr size_t kMostReports = 100;
thread_local bool t_own_question = false;

// An order of its own: that of what runs, and one for each capture.
struct World {
  std::vector<Clock> lanes;
  Clock host;
  std::unordered_map<const void*, Clock> events;
  Shadow shadow;

  Clock& lane(uint32_t index) {
    if (index >= lanes.size()) lanes.resize(index + 1);
    return lanes[index];
  }
};

struct Detector {
  std::mutex mutex;  // a leaf; guards all below
  bool fails = false;
  const char* owed = nullptr;  // a report that the next task fails with
  World live;
  std::map<uint64_t, World> captures;
  std::unordered_map<const void*, uint32_t> lane_of;
  std::unordered_map<const void*, int> numbers;       // that the client gave its streams
  std::vector<Lane> lanes{{true, 0, 0}};              // 0: the host
  std::unordered_map<uint32_t, const void*> unknown;  // lanes, and the event that will make them known; may be null
  std::unordered_set<const void*> taken;              // flags that a waiting lane takes down behind their record
  std::map<uintptr_t, std::shared_ptr<const Block>> blocks;  // by beginning; they do not overlap
  std::unordered_set<std::string> texts;
  // Names and places; streams where a place is not known.
  std::set<std::tuple<const char*, const char*, uint32_t, const char*, const char*, uint32_t>> said;
  std::deque<std::string> reports;
  bool said_lost = false, said_peers_lost = false;
  std::unique_ptr<Peers> peers;  // once `start` was told where they are
  // Lanes that may wait for what we do not see, by lane: a lane more, which is behind such a wait until the host has waited for it.
  std::unordered_map<uint32_t, uint32_t> guesses;
  std::atomic<uint64_t> found{0};

  World& world(uint64_t capture) { return capture ? captures[capture] : live; }

  uint32_t index(const Stream& s) {
    const auto [it, fresh] = lane_of.try_emplace(s.key, static_cast<uint32_t>(lanes.size()));
    if (fresh) lanes.push_back({});
    const auto told = numbers.find(s.key);
    lanes[it->second] = {false, s.device,
                         told == numbers.end() ? s.number : told->second};  // a slot may have another user now
    return it->second;
  }

  std::shared_ptr<const Block> block_at(uintptr_t address) const {
    auto it = blocks.upper_bound(address);
    if (it == blocks.begin()) return nullptr;
    --it;
    return address < it->second->end ? it->second : nullptr;
  }

  void forget_blocks(uintptr_t begin, uintptr_t end) {
    auto it = blocks.upper_bound(begin);
    if (it != blocks.begin() && std::prev(it)->second->end > begin) --it;
    while (it != blocks.end() && it->first < end) it = blocks.erase(it);
  }

  const char* interned(const char* text) { return text ? texts.emplace(text).first->c_str() : nullptr; }

  void guess(uint32_t lane) {
    const auto [it, fresh] = guesses.try_emplace(lane, static_cast<uint32_t>(lanes.size()));
    if (fresh) lanes.push_back({});
    live.lane(lane).tick(it->second);
  }
  bool guessed(const Clock& clock) const {
    for (const auto& [lane, index] : guesses)
      if (clock.of(index) > live.host.of(index)) return true;
    return false;
  }

  // The host may tell another process of it.
  void others_may_know(const Clock& clock) {
    if (!peers) return;
    if (guessed(clock)) peers->know_everything();
    peers->know(clock);
  }
  void host_knows(const Clock& clock) {
    others_may_know(clock);
    live.host.join(clock);
  }

  // What was found first, if anything.
  const char* act(World& world, uint32_t lane, const Clock& clock, uint64_t time, const char* name,
                  const Accesses& accesses) {
    const auto action = std::make_shared<const Action>(Action{lane, time, interned(name), place()});
    const char* first = nullptr;
    for (const Access& access : accesses) {
      const Touch now{action, access, block_at(access.begin)};
      world.shadow.touch(now, clock, world.host, [&](const Touch& earlier) {
        const char* text = say(earlier, now, &world != &live);
        if (!first) first = text;
      });
      if (!peers || &world != &live || peers->shares_nothing()) continue;
      peers->touch(now, clock, world.host, guessed(clock),
                   [&](const Stranger& earlier, uintptr_t begin, uintptr_t end) {
                     const char* text = say(earlier, begin, end, now);
                     if (!first) first = text;
                   });
    }
    if (peers && peers->lost() && !std::exchange(said_peers_lost, true))
      show("anycend: note: ANYCEND_CHECK=race keeps " + std::to_string(Ledger::kEntries) +
           " accesses of a process to memory that others share: some are not known any more, and a race with them is "
           "not "
           "found\n");
    if (world.shadow.lost() && !std::exchange(said_lost, true))
      show("anycend: note: ANYCEND_CHECK=race keeps " + std::to_string(Shadow::kMostViews) +
           " strided views of one piece of memory: of some of those used by " + name +
           " nothing is known any more, and a race with them is not found\n");
    return first;
  }

  // By one write: ranks share the file. Where standard error is closed the reports can still be asked for.
  static void show(const std::string& text) {
    [[maybe_unused]] const ssize_t written = write(STDERR_FILENO, text.data(), text.size());
  }

  // Null where it was said before.
  const char* say(const Touch& earlier, const Touch& now, bool captured) {
    const Action &a = *earlier.action, &b = *now.action;
    const bool known = a.place && b.place;
    if (reports.size() >= kMostReports ||
        !said.emplace(a.name, a.place, known ? 0 : a.lane, b.name, b.place, known ? 0 : b.lane).second)
      return nullptr;
    return say(report_text(earlier, now, lanes[a.lane], lanes[b.lane],
                           earlier.block ? lanes[earlier.block->owner] : Lane{}, captured));
  }

  const char* say(const Stranger& earlier, uintptr_t begin, uintptr_t end, const Touch& now) {
    const Ledger::Entry& e = earlier.entry;
    const Action& b = *now.action;
    const char *name = interned(e.name), *place = *e.place ? interned(e.place) : nullptr;
    const bool known = place && b.place;
    // Of another process, which would be another lane.
    if (reports.size() >= kMostReports ||
        !said.emplace(name, place, known ? 0 : ~e.lane, b.name, b.place, known ? 0 : b.lane).second)
      return nullptr;
    const char* rank = getenv("RANK");
    return say(report_text(earlier, begin, end, now, lanes[b.lane], static_cast<int>(getpid()),
                           rank && *rank ? atoi(rank) : -1));
  }

  const char* say(std::string text) {
    reports.push_back(std::move(text));
    found.fetch_add(1, std::memory_order_relaxed);
    show("anycend: race: " + reports.back() + "\n");
    return reports.back().c_str();
  }
};

Detector& detector() {
  static Detector& d = *new Detector;
  return d;
}

// Without memory the detector goes on with what it has: a race may be missed.
template <class Body>
const char* locked(Body&& body) noexcept {
  if (!on()) return nullptr;
  try {
    Detector& d = detector();
    std::lock_guard lock(d.mutex);
    return body(d);
  } catch (const std::bad_alloc&) {
    return nullptr;
  }
}

}  // namespace

void start(bool fails, const char* folder) noexcept {
  Detector& d = detector();
  try {
    std::lock_guard lock(d.mutex);
    d.fails = fails;
    if (*folder && !d.peers) d.peers = std::make_unique<Peers>(folder, d.lanes);
  } catch (const std::bad_alloc&) {  // other processes are not seen then
  }
  watch_for(kRaces);
}

const char* task(const Stream& stream, const char* name, const Accesses& accesses) noexcept {
  return locked([&](Detector& d) -> const char* {
    const uint32_t lane = d.index(stream);
    World& world = d.world(stream.capture);
    Clock& clock = world.lane(lane);
    clock.join(world.host);
    const uint64_t time = clock.tick(lane);
    const char* text = std::exchange(d.owed, nullptr);
    if (!d.unknown.count(lane)) {
      const char* own = d.act(world, lane, clock, time, name, accesses);
      if (!text) text = own;
    }
    for (const Meeting& meeting : take_meetings())
      if (d.peers && !stream.capture && !d.peers->meet(meeting, clock, d.live.host, d.guessed(clock))) d.guess(lane);
    return d.fails ? text : nullptr;
  });
}

const char* host(const char* name, const Accesses& accesses) noexcept {
  return locked([&](Detector& d) -> const char* {
    const uint64_t time = d.live.host.tick(0);
    const char* text = d.act(d.live, 0, d.live.host, time, name, accesses);
    return d.fails ? text : nullptr;
  });
}

void owe(const char* report) noexcept {
  locked([&](Detector& d) {
    d.owed = report;
    return nullptr;
  });
}

bool owes() noexcept {
  return locked([](Detector& d) { return d.owed; }) != nullptr;
}

void recorded(const void* event, const Stream& stream) noexcept {
  locked([&](Detector& d) {
    const uint32_t lane = d.index(stream);
    World& world = d.world(stream.capture);
    Clock at = world.lane(lane);
    at.join(world.host);
    for (auto it = d.unknown.begin(); it != d.unknown.end();) {
      if (it->second != event) {
        ++it;
        continue;
      }
      world.lane(it->first).join(at);
      it = d.unknown.erase(it);
    }
    world.events[event] = std::move(at);
    if (d.taken.erase(event)) world.events.erase(event);
    return nullptr;
  });
}

void waited(const void* event, const Stream& stream, bool flag) noexcept {
  locked([&](Detector& d) {
    const uint32_t lane = d.index(stream);
    World& world = d.world(stream.capture);
    if (const auto found = world.events.find(event); found != world.events.end())
      world.lane(lane).join(found->second);
    else if (flag) {
      d.unknown[lane] = event;
      if (!stream.capture) d.guess(lane);
    }
    return nullptr;
  });
}

void unknown(const Stream& stream) noexcept {
  locked([&](Detector& d) {
    const uint32_t lane = d.index(stream);
    d.unknown[lane] = nullptr;
    if (!stream.capture) d.guess(lane);
    return nullptr;
  });
}

void taken_down(const void* event, const Stream& stream) noexcept {
  locked([&](Detector& d) {
    const auto waits = d.unknown.find(d.index(stream));
    if (waits != d.unknown.end() && waits->second == event) d.taken.insert(event);
    d.live.events.erase(event);
    return nullptr;
  });
}

void forget_event(const void* event) noexcept {
  locked([&](Detector& d) {
    d.taken.erase(event);
    d.live.events.erase(event);
    return nullptr;
  });
}

bool own_question(bool own) noexcept { return std::exchange(t_own_question, own); }

void over(const void* event, const void* address, uint64_t bytes) noexcept {
  locked([&](Detector& d) {
    const auto begin = reinterpret_cast<uintptr_t>(address);
    if (const auto found = d.live.events.find(event); found != d.live.events.end())
      d.live.shadow.forget(begin, begin + bytes, found->second);
    return nullptr;
  });
}

void host_waited(const void* stream) noexcept {
  locked([&](Detector& d) {
    const auto found = d.lane_of.find(stream);
    if (found == d.lane_of.end()) return nullptr;
    if (t_own_question) return d.others_may_know(d.live.lane(found->second)), nullptr;
    d.host_knows(d.live.lane(found->second));
    d.unknown.erase(found->second);
    return nullptr;
  });
}

void host_saw(const void* event) noexcept {
  locked([&](Detector& d) {
    if (const auto found = d.live.events.find(event); found != d.live.events.end())
      t_own_question ? d.others_may_know(found->second) : d.host_knows(found->second);
    return nullptr;
  });
}

void recorded(Stamp& stamp, const Stream& stream, bool joined) noexcept {
  locked([&](Detector& d) {
    if (!d.peers) return nullptr;
    const uint32_t lane = d.index(stream);
    Clock at = d.live.lane(lane);
    at.join(d.live.host);
    d.peers->write(stamp, at, d.live.host, d.guessed(at), joined);
    return nullptr;
  });
}

void waited(const Stamp& stamp, const Stream& stream) noexcept {
  locked([&](Detector& d) {
    const uint32_t lane = d.index(stream);
    if (d.peers && !d.peers->join(d.live.lane(lane), stamp)) d.guess(lane);
    return nullptr;
  });
}

void host_saw(const Stamp& stamp) noexcept {
  locked([&](Detector& d) {
    if (!d.peers) return nullptr;
    Clock clock;
    if (!d.peers->join(clock, stamp)) d.peers->know_everything();
    d.host_knows(clock);
    return nullptr;
  });
}

void opens(const Stream& stream, bool says, bool hears) noexcept {
  locked([&](Detector& d) {
    if (!d.peers || stream.capture) return nullptr;
    const uint32_t lane = d.index(stream);
    Clock at = d.live.lane(lane);
    at.join(d.live.host);
    if (says) d.peers->will_say(at, d.guessed(at));
    if (hears) d.guess(lane);
    return nullptr;
  });
}

void destroyed(const void* stream) noexcept {
  locked([&](Detector& d) {
    if (const auto found = d.lane_of.find(stream); found != d.lane_of.end())
      d.others_may_know(d.live.lane(found->second));
    return nullptr;
  });
}

void all_over() noexcept {
  locked([&](Detector& d) {
    if (!d.peers) return nullptr;
    for (const auto& [key, lane] : d.lane_of) d.peers->know(d.live.lane(lane));
    return nullptr;
  });
}

void shared(const void* address, uint64_t bytes, int file, uint64_t offset, bool mine) noexcept {
  struct stat s;
  if (!on() || bytes == 0 || fstat(file, &s) != 0) return;
  locked([&](Detector& d) {
    const auto begin = reinterpret_cast<uintptr_t>(address);
    if (!d.peers) return nullptr;
    const bool known = d.peers->covers(begin, begin + bytes);
    d.peers->share(begin, bytes, s.st_ino, offset, mine);
    if (!mine || known) return nullptr;
    d.live.shadow.each(begin, begin + bytes, [&](const Touch& t) {
      const Clock& clock = d.live.lane(t.action->lane);
      if (!d.guessed(clock)) d.peers->tell(t, clock, d.live.host);
    });
    return nullptr;
  });
}

void capture_over(uint64_t capture) noexcept {
  locked([&](Detector& d) {
    d.captures.erase(capture);
    return nullptr;
  });
}

namespace {

void forget(const void* address, uint64_t bytes, bool back) noexcept {
  locked([&](Detector& d) {
    const auto begin = reinterpret_cast<uintptr_t>(address);
    if (d.peers) d.peers->forget(begin, begin + bytes, back);
    d.live.shadow.forget(begin, begin + bytes);
    for (auto& [id, world] : d.captures) world.shadow.forget(begin, begin + bytes);
    d.forget_blocks(begin, begin + bytes);
    return nullptr;
  });
}

}  // namespace

void freed(const void* address, uint64_t bytes) noexcept { forget(address, bytes, true); }
void unmapped(const void* address, uint64_t bytes) noexcept { forget(address, bytes, false); }

void given_back(int file, uint64_t offset, uint64_t bytes) noexcept {
  struct stat s;
  if (!on() || fstat(file, &s) != 0) return;
  locked([&](Detector& d) {
    if (d.peers) d.peers->given_back(s.st_ino, offset, offset + bytes);
    return nullptr;
  });
}

void numbered(const Stream& stream, int number) noexcept {
  locked([&](Detector& d) {
    d.numbers[stream.key] = number;
    return nullptr;
  });
}

void given(const void* address, uint64_t bytes, const Stream& owner) noexcept {
  locked([&](Detector& d) {
    const auto begin = reinterpret_cast<uintptr_t>(address);
    d.forget_blocks(begin, begin + bytes);
    d.blocks[begin] = std::make_shared<const Block>(Block{begin, begin + bytes, d.index(owner), place()});
    return nullptr;
  });
}

uint64_t found() noexcept { return on() ? detector().found.load(std::memory_order_relaxed) : 0; }

const char* report(uint64_t n) noexcept {
  return locked(
      [&](Detector& d) { return n < d.reports.size() ? d.reports[static_cast<size_t>(n)].c_str() : nullptr; });
}

}  // namespace softnpu::race
