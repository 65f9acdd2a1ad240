// The keys, values and queues of the parallel store, and who waits for them. No sockets here.
// Called from all threads of the server. Keys are spread over shards with a lock each; no two locks are held together, and
// none is held while a waiting client is told.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "csrc/distributed/store/budget.h"

namespace npu::distributed::store {

// Somebody waits until all of `keys` are there; `done` is called once, by the thread that brought the last one, and throws nothing:
// that thread serves somebody else. It returns false where nobody waits any more, and so nothing was taken.
struct Wait {
  explicit Wait(Budget& budget) : share(budget) {}
  std::vector<std::string> keys;
  std::function<bool(std::string_view taken)> done;
  bool takes = false;    // takes the value out of the queue `keys[0]` instead of only looking
  bool arrives = false;  // is counted in the barrier `keys[0]`
  int64_t world = 0;     // so many the barrier waits for
  std::atomic<int64_t> missing{0};
  Share share;  // of the table's memory: waits are as large as their keys
};
using WaitPtr = std::shared_ptr<Wait>;

class Table {
 public:
  void set(std::string_view key, std::string_view value);
  std::string get(std::string_view key);
  std::string compare_set(std::string_view key, std::string_view expected, std::string_view desired);
  int64_t add(std::string_view key, int64_t value);
  void append(std::string_view key, std::string_view value);
  int64_t erase(std::string_view key);
  bool has(std::string_view key);
  int64_t size();
  std::vector<std::string> keys();

  void push(std::string_view key, std::string_view value);
  // The length before, and the first value where there is one.
  std::pair<int64_t, std::string> pop(std::string_view key);
  int64_t length(std::string_view key);

  // True: nothing is missing (of a taking wait, `taken` is the value), and `done` will not be called.
  bool wait(const WaitPtr& wait, std::string& taken);
  void cancel(const WaitPtr& wait) noexcept;
  Budget& budget() { return bytes_; }

 private:
  struct Entry {
    std::optional<std::string> value;
    std::deque<std::string> queue;
    std::vector<WaitPtr> waits;
    bool idle() const { return !value && queue.empty() && waits.empty(); }
  };
  struct Hash : std::hash<std::string_view> {
    using is_transparent = void;
  };
  struct Shard {
    std::mutex lock;
    std::unordered_map<std::string, Entry, Hash, std::equal_to<>> entries;
    Entry& at(std::string_view key);
  };
  Shard& shard(std::string_view key) { return shards_[Hash{}(key) % shards_.size()]; }
  bool arrive(const WaitPtr& wait);
  bool take(const WaitPtr& wait, std::string& taken);
  // Room for so many more bytes at a key, or a ProtocolError before anything is changed: nobody may fill the server's memory.
  void hold(Shard& shard, std::string_view key, int64_t more);
  static std::vector<WaitPtr> lookers(Entry& entry);
  static void tell(const std::vector<WaitPtr>& waits);

  Budget bytes_{kLargestTable};  // of values, queues and waits, with their keys; outlives the waits
  std::array<Shard, 16> shards_;
};

}  // namespace npu::distributed::store
