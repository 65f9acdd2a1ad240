// Ranks come together over the store to make a communicator, and the first of them says how. Tries are numbered: one that failed
// leaves nothing that a later one could take for its own.
// What it is not: asking ranks that call nothing (mailbox.h). Who calls it: communicator.cpp, connect.cpp.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include <torch/csrc/distributed/c10d/Store.hpp>

namespace npu::distributed {

struct Meeting {
  c10d::Store& store;
  std::string key;         // the same on all of them, and of this communicator alone
  std::vector<int> ranks;  // of the group: who makes it, in the communicator's order
  size_t me;               // which of them is here
  int of;                  // how many ranks the group has
  std::chrono::milliseconds limit;
  std::function<void()> usable;       // called again and again meanwhile; throws when waiting has no use any more
  std::function<void()> asked;        // called at the begin of each try; may be empty
  std::string nonce = random_word();  // tells who comes here from a group before it, over the same store

  static std::string random_word();
};

// To a try that this rank has not come to as somebody else; its number. meet() does it, too.
uint64_t come(const Meeting& meeting);
// What the first of those who came to the try wished.
std::string settled_wish(const Meeting& meeting, uint64_t number, const std::string& wish);
// Waits until all are there and returns the try's number. After `limit` DistBackendError names those who did not come.
uint64_t meet(const Meeting& meeting);
// Rank `rank` has come to the current try with this wish, and waits in it.
bool waits(const Meeting& meeting, int rank, const std::string& wish);
// What the first rank's `make` gives, on all ranks; also its failure.
std::vector<uint8_t> from_first(const Meeting& meeting, uint64_t number,
                                const std::function<std::vector<uint8_t>()>& make);
// What follows the meeting failed here: whoever tries again comes to another one.
void give_up(const Meeting& meeting, uint64_t number) noexcept;

}  // namespace npu::distributed
