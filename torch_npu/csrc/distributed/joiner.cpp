// See joiner.h.
//
// The questions of all groups stand in the store that they share, numbered, so that a look is one request of a process, however
// many groups it has: hccl_joins/1, hccl_joins/2, ... each with the key that the group has there. The looks go over a connection of
// their own: the program may wait in its for a long time.
#include "csrc/distributed/joiner.h"

#include <c10/util/Exception.h>
#include <c10/util/Logging.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <map>
#include <mutex>
#include <set>
#include <thread>
#include <vector>

#include <torch/csrc/distributed/c10d/PrefixStore.hpp>

namespace npu::distributed {
namespace {

using StorePtr = c10::intrusive_ptr<c10d::Store>;
using std::chrono::milliseconds;

constexpr milliseconds kSoon{20},
    kLate{250};  // between two looks: after something new, and when nothing has come for long
constexpr auto kEnd = std::chrono::seconds(2);  // how long the end of the process waits for a look or a meeting

// The store below all prefixes, and what they make of a key.
struct Place : c10d::PrefixStore {  // never made: a derived class may name the prefix
  static std::pair<StorePtr, std::string> of(StorePtr store, std::string key) {
    while (const auto prefixed = c10::dynamic_intrusive_pointer_cast<c10d::PrefixStore>(store)) {
      key = (*prefixed).*(&Place::prefix_) + "/" + key;
      store = prefixed->getUnderlyingStore();
    }
    return {store, key};
  }
};

std::string question(int64_t number) { return "hccl_joins/" + std::to_string(number); }

// What was asked in one store so far. Keeps a connection to it, but not the store: a server's port is free when its groups end.
class Questions {
 public:
  explicit Questions(const StorePtr& shared) : shared_(shared) {}
  bool alive() const { return shared_.use_count() > 0; }
  void look() {
    if (lost_) return;
    try {
      if (!own_) {
        const StorePtr shared = shared_.lock();
        if (!shared) return;
        own_ = shared->clone();
      }
      for (; own_->check({question(next_)}); ++next_) {
        const std::vector<uint8_t> key = own_->get(question(next_));
        asked_.emplace(key.begin(), key.end());
      }
    } catch (const std::exception&) {  // the store is gone, and with it whoever would ask
      lost_ = true;
    }
  }
  bool asked(const std::string& key) const { return asked_.count(key) > 0; }

 private:
  const c10::weak_intrusive_ptr<c10d::Store> shared_;  // also keeps its address from being another's
  StorePtr own_;
  int64_t next_ = 1;
  std::set<std::string> asked_;
  bool lost_ = false;
};

struct Joiner {
  std::mutex mutex;
  std::condition_variable changed;
  bool stop = false, running = false, news = false;
  int meetings = 0;  // threads that join
  std::vector<Guest> guests;
};

Joiner& the() {
  static auto* const joiner = new Joiner;  // leaked: its thread may be in a look when the process ends
  return *joiner;
}

void meet(const Guest& guest) {
  try {
    guest.join();
  } catch (const c10::Error& error) {
    LOG(WARNING) << "ProcessGroupHCCL: joining a communicator that another rank asked for: "
                 << error.what_without_backtrace();
  } catch (const std::exception& error) {
    LOG(WARNING) << "ProcessGroupHCCL: joining a communicator that another rank asked for: " << error.what();
  }
  Joiner& j = the();
  std::lock_guard<std::mutex> lock(j.mutex);
  --j.meetings;
  j.changed.notify_all();
}

using Stores = std::map<c10d::Store*, Questions>;

// Takes those out of `guests` that are asked for and can join, and forgets those that need nobody any more.
std::vector<Guest> take_wanted(std::vector<Guest>& guests, Stores& stores) {
  std::erase_if(guests, [](const Guest& g) { return !g.open(); });
  for (const Guest& g : guests)
    if (const StorePtr store = g.store.lock()) {
      const StorePtr shared = Place::of(store, "").first;
      stores.try_emplace(shared.get(), shared);
    }
  std::erase_if(stores, [](const auto& entry) { return !entry.second.alive(); });
  for (auto& [store, questions] : stores) questions.look();
  std::vector<Guest> wanted;
  std::erase_if(guests, [&](Guest& g) {
    const StorePtr store = g.store.lock();
    if (!store) return true;
    const auto [shared, key] = Place::of(store, g.key);
    const auto found = stores.find(shared.get());
    if (found == stores.end() || !found->second.asked(key) || !g.able()) return false;
    wanted.push_back(std::move(g));
    return true;
  });
  return wanted;
}

void run() {
  Joiner& j = the();
  Stores stores;
  milliseconds pause = kSoon;
  std::unique_lock<std::mutex> lock(j.mutex);
  while (!j.stop) {
    if (j.guests.empty()) {
      stores.clear();
      j.changed.wait(lock, [&] { return j.stop || !j.guests.empty(); });
      continue;
    }
    if (j.changed.wait_for(lock, pause, [&] { return j.stop || j.news; })) pause = kSoon;
    j.news = false;
    std::vector<Guest> guests = std::exchange(j.guests, {});
    lock.unlock();  // a look takes its time, and the last word on a group may be ours
    std::vector<Guest> wanted = take_wanted(guests, stores);
    pause = wanted.empty() ? std::min(pause * 5 / 4, kLate) : kSoon;
    lock.lock();
    j.guests.insert(j.guests.end(), std::make_move_iterator(guests.begin()), std::make_move_iterator(guests.end()));
    for (Guest& g : wanted) {
      ++j.meetings;
      std::thread(meet, std::move(g)).detach();
    }
  }
  j.running = false;
  j.changed.notify_all();
}

}  // namespace

void join_when_asked(Guest guest) {
  Joiner& j = the();
  std::lock_guard<std::mutex> lock(j.mutex);
  if (j.stop) return;
  j.guests.push_back(std::move(guest));
  j.news = true;
  j.changed.notify_all();
  if (std::exchange(j.running, true)) return;
  std::thread(run).detach();
}

void ask_to_join(const StorePtr& store, const std::string& key) {
  const auto [shared, whole] = Place::of(store, key);
  const int64_t number = shared->add("hccl_joins", 1);
  shared->set(question(number), std::vector<uint8_t>(whole.begin(), whole.end()));
}

void joining_is_over() {
  Joiner& j = the();
  std::lock_guard<std::mutex> lock(j.mutex);
  TORCH_CHECK(!j.stop, "ProcessGroupHCCL: the process ends");
}

void stop_joiner() {
  Joiner& j = the();
  std::unique_lock<std::mutex> lock(j.mutex);
  j.stop = true;
  j.changed.notify_all();
  // What is in a store or in HCCL cannot be called back: the process ends without it.
  j.changed.wait_for(lock, kEnd, [&] { return !j.running && !j.meetings; });
}

}  // namespace npu::distributed
