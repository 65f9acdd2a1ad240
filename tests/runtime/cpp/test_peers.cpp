// What processes that look for races tell each other: two of them in one, each with its own open file and mapping.
#include "softnpu/race/peers.h"

#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <boost/test/unit_test.hpp>
#include <filesystem>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

using namespace softnpu::race;

namespace {

struct Folder {
  std::string path = [] {
    char name[] = "/tmp/anycend-peers-XXXXXX";
    return std::string(mkdtemp(name));
  }();
  ~Folder() { std::filesystem::remove_all(path); }
};

// A process as the detector of one has it: streams 1 and 2, and a host.
struct Process {
  std::vector<Lane> lanes{{true, 0, 0}, {false, 0, 1}, {false, 0, 2}};
  Peers peers;
  Clock host, clocks[3];
  const uintptr_t at;  // where it has the memory

  Process(const Folder& folder, uintptr_t address, bool mine = false) : peers(folder.path, lanes), at(address) {
    peers.share(at, 4096, 77, 0, mine);
  }

  int touch(uint32_t lane, uint64_t offset, bool write, uint64_t bytes = 64, const char* name = "op") {
    Clock& clock = clocks[lane];
    clock.join(host);
    const auto action = std::make_shared<const Action>(Action{lane, clock.tick(lane), name, "line"});
    int found = 0;
    peers.touch({action, {at + offset, at + offset + bytes, write, nullptr, false}, nullptr}, clock, host, false,
                [&](const Stranger&, uintptr_t begin, uintptr_t end) {
                  BOOST_TEST(begin >= at);
                  BOOST_TEST(end <= at + 4096);
                  ++found;
                });
    return found;
  }
  void wait(uint32_t lane) {
    host.join(clocks[lane]);
    peers.know(host);
  }
  void record(Stamp& stamp, uint32_t lane, bool joined = false) {
    peers.write(stamp, clocks[lane], host, false, joined);
  }
  bool wait_for(const Stamp& stamp, uint32_t lane) { return peers.join(clocks[lane], stamp); }
  void meet(uint32_t lane, uint32_t rank, uint64_t group = 5, uint32_t ranks = 2) {
    clocks[lane].tick(lane);
    BOOST_TEST(peers.meet({group, rank, ranks}, clocks[lane], host, false));
  }
};

}  // namespace

BOOST_AUTO_TEST_SUITE(test_peers)

BOOST_AUTO_TEST_CASE(what_the_host_knew_is_before_all_that_follows) {
  const Folder folder;
  Process a(folder, 1 << 20, true), b(folder, 1 << 24);
  BOOST_TEST(a.touch(1, 0, true) == 0);
  BOOST_TEST(b.touch(1, 0, false) == 1);
  BOOST_TEST(b.touch(1, 64, true) == 0);  // other bytes
  BOOST_TEST(a.touch(1, 64, false) == 1);
  a.wait(1), b.wait(1);
  BOOST_TEST(a.touch(1, 0, true) == 0);
  a.wait(1);
  BOOST_TEST(b.touch(1, 0, true) == 0);
  b.wait(1);
  BOOST_TEST(a.touch(2, 0, false) == 0);
  BOOST_TEST(b.touch(2, 0, false) == 0);  // two readers
}

BOOST_AUTO_TEST_CASE(an_event_orders_what_was_before_its_record) {
  const Folder folder;
  Process a(folder, 1 << 20, true), b(folder, 1 << 24), c(folder, 1 << 25);
  Stamp early, late, on;
  a.touch(1, 128, true);
  a.record(early, 1);
  a.touch(1, 0, true);
  a.record(late, 1);
  b.wait_for(early, 1);
  BOOST_TEST(b.touch(1, 128, true) == 0);
  BOOST_TEST(b.touch(1, 0, false) == 1);
  b.wait_for(late, 2);
  BOOST_TEST(b.touch(2, 0, false) == 0);
  b.record(on, 2);  // through a third process
  c.wait_for(on, 1);
  BOOST_TEST(c.touch(1, 0, false) == 0);
  b.wait(2);  // whose host knows what it waited for
  BOOST_TEST(c.touch(2, 0, false) == 0);
}

BOOST_AUTO_TEST_CASE(a_collective_orders_what_both_ranks_have_around_it) {
  const Folder folder;
  Process a(folder, 1 << 20, true), b(folder, 1 << 24);
  a.touch(1, 0, true);
  b.meet(1, 1);
  BOOST_TEST(b.touch(1, 0, true) == 0);  // the other rank may have put it behind: not to be told yet
  BOOST_TEST(a.touch(1, 0, true) == 0);  // nor from here
  a.meet(1, 0);
  BOOST_TEST(b.touch(1, 0, true) == 0);
  BOOST_TEST(a.touch(1, 0, true) == 1);  // b's, behind the collective
  a.wait(1), b.wait(1);
  a.meet(1, 0);
  a.touch(1, 512, true);
  b.meet(1, 1);
  BOOST_TEST(b.touch(1, 512, true) == 1);  // a's, behind the collective
  BOOST_TEST(b.touch(2, 1024, true) == 0);
  a.touch(2, 1024, true);
}

BOOST_AUTO_TEST_CASE(what_a_host_knows_of_a_collective_it_knows_of_its_ranks) {
  const Folder folder;
  Process a(folder, 1 << 20, true), b(folder, 1 << 24), c(folder, 1 << 25);
  a.touch(1, 0, true);
  a.meet(1, 0);
  b.meet(1, 1);
  BOOST_TEST(c.touch(1, 0, false) == 1);
  b.wait(1);
  BOOST_TEST(c.touch(1, 0, false) == 0);
}

BOOST_AUTO_TEST_CASE(memory_that_the_owner_gave_back_begins_anew) {
  const Folder folder;
  Process a(folder, 1 << 20, true), b(folder, 1 << 24);
  b.touch(1, 0, true);
  b.touch(1, 2048, true);
  a.peers.forget(a.at, a.at + 1024, true);
  a.peers.share(a.at, 1024, 77, 0, true);
  BOOST_TEST(a.touch(1, 0, true) == 0);
  BOOST_TEST(a.touch(1, 2048, true) == 1);
}

BOOST_AUTO_TEST_CASE(memory_that_is_not_mapped_any_more_is_still_there_until_it_goes_back) {
  const Folder folder;
  Process a(folder, 1 << 20, true), b(folder, 1 << 24);
  const uintptr_t again = 1 << 22;
  a.peers.share(again, 4096, 77, 0, true);
  b.touch(1, 0, true);
  a.peers.forget(again, again + 4096, false);
  BOOST_TEST(a.touch(1, 0, true) == 1);
  a.peers.forget(a.at, a.at + 4096, false);
  a.peers.share(a.at, 4096, 77, 0, true);
  BOOST_TEST(a.touch(2, 0, true) == 1);
  a.peers.given_back(77, 0, 4096);
  BOOST_TEST(a.touch(2, 0, true) == 0);
}

BOOST_AUTO_TEST_CASE(who_has_died_has_ended) {
  const Folder folder;
  Process a(folder, 1 << 20, true);
  {
    Process b(folder, 1 << 24);
    b.touch(1, 0, true);
    BOOST_TEST(a.touch(1, 0, false) == 1);
  }
  BOOST_TEST(a.touch(1, 0, false) == 0);
  Process c(folder, 1 << 24);  // in b's place
  BOOST_TEST(c.touch(1, 0, true) == 1);
  a.wait(1);
  BOOST_TEST(a.touch(1, 0, false) == 1);
}

BOOST_AUTO_TEST_CASE(what_cannot_be_written_down_is_not_compared) {
  const Folder folder;
  Process a(folder, 1 << 20, true), b(folder, 1 << 24);
  a.touch(1, 0, true);
  Stamp stamp;
  a.peers.write(stamp, a.clocks[1], a.host, true, false);
  BOOST_TEST(!b.wait_for(stamp, 1));
  BOOST_TEST(a.touch(2, 8, false) == 0);  // its own
  b.peers.know_everything();
  BOOST_TEST(b.touch(1, 0, false) == 0);
}

BOOST_AUTO_TEST_CASE(more_accesses_than_are_kept_are_told_of) {
  const Folder folder;
  Process a(folder, 1 << 20, true), b(folder, 1 << 24);
  for (uint64_t i = 0; i < Ledger::kEntries; ++i) a.touch(1, i, true, 1 + i % 8);
  BOOST_TEST(!a.peers.lost());
  a.wait(1);
  for (uint64_t i = 0; i < 2 * Ledger::kEntries; ++i) a.touch(1, i % 4000, true, 1 + i / 4000);
  BOOST_TEST(a.peers.lost());
  a.wait(1);
  BOOST_TEST(b.touch(1, 0, true, 4096) == 0);
}

BOOST_AUTO_TEST_CASE(processes_tell_at_once) {
  const Folder folder;
  Process processes[] = {{folder, 1 << 20, true}, {folder, 1 << 24}, {folder, 1 << 25}, {folder, 1 << 26}};
  std::mutex turn;  // a message: who has it may use the memory, and waits before it goes on
  int found = 0;
  std::vector<std::thread> threads;
  for (Process& p : processes)
    threads.emplace_back([&] {
      for (uint64_t i = 0; i < 300; ++i) {
        p.touch(2, 1024 + 64 * static_cast<uint64_t>(&p - processes), true);
        if (i % 10 == 0) p.wait(2);
        const std::lock_guard lock(turn);
        found += p.touch(1, i % 7 * 8, i % 2 == 0);
        p.wait(1);
      }
    });
  for (auto& t : threads) t.join();
  BOOST_TEST(found == 0);
}

BOOST_AUTO_TEST_SUITE_END()
