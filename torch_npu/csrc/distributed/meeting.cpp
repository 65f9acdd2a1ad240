// See meeting.h. In the store, under the meeting's key:
//   try            the number of the try; absent: 0
//   N/here/R       rank R has come to try N: a word of its own. A group made over the store of one before finds its ranks there
//                  already, by other words, and goes on to the next try
//   N/wish         see settled_wish
//   N/state        "met" or "over", whichever was written first: who gives up and who comes last agree on what happened
//   N/first        the first rank's word: 1 and bytes, or 0 and why there are none
#include "csrc/distributed/meeting.h"

#include <ATen/core/Generator.h>
#include <c10/util/Exception.h>

#include <algorithm>
#include <set>
#include <thread>

#include "csrc/cann/export.h"

namespace npu::distributed {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;
using Bytes = std::vector<uint8_t>;

Bytes bytes(const std::string& text) { return {text.begin(), text.end()}; }
std::string text(const Bytes& bytes) { return {bytes.begin(), bytes.end()}; }

std::string in_try(const Meeting& m, uint64_t number, const std::string& what) {
  return m.key + "/" + std::to_string(number) + "/" + what;
}

std::string here(const Meeting& m, uint64_t number, int rank) {
  return in_try(m, number, "here/" + std::to_string(rank));
}

uint64_t current_try(const Meeting& m) {
  const std::string key = m.key + "/try";
  return m.store.check({key}) ? std::stoull(text(m.store.get(key))) : 0;
}

// Whoever says it first counts; the others' word changes nothing.
void begin_next(const Meeting& m, uint64_t number) {
  m.store.compareSet(m.key + "/try", bytes(number ? std::to_string(number) : ""), bytes(std::to_string(number + 1)));
}

bool settle(const Meeting& m, uint64_t number, const char* state) {
  return text(m.store.compareSet(in_try(m, number, "state"), Bytes{}, bytes(state))) == state;
}

std::vector<int> missing(const Meeting& m, uint64_t number) {
  std::vector<int> ranks;
  for (const int r : m.ranks)
    if (!m.store.check({here(m, number, r)})) ranks.push_back(r);
  return ranks;
}

bool all_here(const Meeting& m, uint64_t number) {
  std::vector<std::string> keys;
  for (const int r : m.ranks) keys.push_back(here(m, number, r));
  return m.store.check(keys);
}

[[noreturn]] void throw_missing_ranks(const Meeting& m, const std::vector<int>& ranks) {
  C10_THROW_ERROR(
      DistBackendError,
      c10::str(
          "ProcessGroupHCCL: rank", ranks.size() == 1 ? " " : "s ", c10::Join(", ", ranks), " of ", m.of,
          " did not connect within ", static_cast<double>(m.limit.count()) / 1000,
          " s (the group's timeout or HCCL_CONNECT_TIMEOUT). A group's first collective makes its communicator and "
          "needs all ranks; a first send or receive needs its two"));
}

// Longer with time and with the number of ranks that ask the same store.
class Pause {
 public:
  explicit Pause(size_t ranks) : longest_(std::clamp<int64_t>(static_cast<int64_t>(ranks) / 4, 5, 100)) {}
  void rest() {
    std::this_thread::sleep_for(next_);
    next_ = std::min(next_ * 2, longest_);
  }

 private:
  const milliseconds longest_;
  milliseconds next_{1};
};

// In try `number` until it is settled: whether all have met.
bool attend(const Meeting& m, uint64_t number, steady_clock::time_point end) {
  if (m.asked) m.asked();
  if (all_here(m, number)) return settle(m, number, "met");
  const std::string state = in_try(m, number, "state");
  for (Pause pause(m.ranks.size());; pause.rest()) {
    if (m.store.check({state})) return text(m.store.get(state)) == "met";
    m.usable();
    if (steady_clock::now() > end) return false;
  }
}

}  // namespace

std::string Meeting::random_word() { return std::to_string(c10::detail::getNonDeterministicRandom()); }

uint64_t come(const Meeting& m) {
  for (;;) {
    const uint64_t number = current_try(m);
    if (text(m.store.compareSet(here(m, number, m.ranks[m.me]), Bytes{}, bytes(m.nonce))) == m.nonce) return number;
    begin_next(m, number);
  }
}

std::string settled_wish(const Meeting& m, uint64_t number, const std::string& wish) {
  return text(m.store.compareSet(in_try(m, number, "wish"), Bytes{}, bytes(wish)));
}

uint64_t meet(const Meeting& m) {
  const auto end = steady_clock::now() + m.limit;
  std::set<int> never(m.ranks.begin(), m.ranks.end());  // came to no try
  for (;;) {
    const uint64_t number = come(m);
    try {
      if (attend(m, number, end)) return number;
    } catch (...) {
      give_up(m, number);
      throw;
    }
    if (!settle(m, number, "over")) {
      if (text(m.store.get(in_try(m, number, "state"))) == "met") return number;  // the last one came just now
    }
    const std::vector<int> absent = missing(m, number);
    std::erase_if(never, [&](int r) { return std::find(absent.begin(), absent.end(), r) == absent.end(); });
    begin_next(m, number);
    if (steady_clock::now() > end)
      throw_missing_ranks(m, never.empty() ? absent : std::vector<int>(never.begin(), never.end()));
  }
}

bool waits(const Meeting& m, int rank, const std::string& wish) {
  const uint64_t number = current_try(m);
  const std::string settled = in_try(m, number, "wish");
  return m.store.check({here(m, number, rank), settled}) && text(m.store.get(settled)) == wish &&
         !m.store.check({in_try(m, number, "state")});
}

Bytes from_first(const Meeting& m, uint64_t number, const std::function<Bytes()>& make) {
  const std::string key = in_try(m, number, "first");
  if (m.me == 0) {
    try {
      Bytes word = make();
      Bytes said(word);
      said.insert(said.begin(), 1);
      m.store.set(key, said);
      return word;
    } catch (const c10::Error& error) {
      m.store.set(key, bytes(std::string(1, '\0') + error.what_without_backtrace()));
      throw;
    }
  }
  const auto end = steady_clock::now() + m.limit;
  for (Pause pause(m.ranks.size()); !m.store.check({key}); pause.rest()) {
    m.usable();
    if (steady_clock::now() > end)
      C10_THROW_ERROR(DistBackendError, c10::str("ProcessGroupHCCL: rank ", m.ranks[0], " did not begin within ",
                                                 static_cast<double>(m.limit.count()) / 1000, " s"));
  }
  const Bytes said = m.store.get(key);
  if (said.empty() || said[0] != 1)
    C10_THROW_ERROR(DistBackendError, c10::str("ProcessGroupHCCL: rank ", m.ranks[0], " could not begin: ",
                                               said.empty() ? "" : text({said.begin() + 1, said.end()})));
  return {said.begin() + 1, said.end()};
}

void give_up(const Meeting& m, uint64_t number) noexcept {
  try {
    settle(m, number, "over");
    begin_next(m, number);
  } catch (...) {  // the store is lost: there will be no other try
  }
}

}  // namespace npu::distributed
