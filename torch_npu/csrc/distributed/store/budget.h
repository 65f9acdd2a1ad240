// The bytes that clients make a server keep, and their limit: nobody may fill its memory. A Share is what one thing holds of them,
// for as long as it exists. From any thread.
#pragma once

#include <atomic>
#include <cstdint>

#include "csrc/distributed/store/protocol.h"

namespace npu::distributed::store {

class Budget {
 public:
  explicit Budget(int64_t limit) : limit_(limit) {}
  // False, and nothing is taken, where there is no room. Giving back (less than 0) never fails.
  bool take(int64_t more) noexcept {
    if (used_.fetch_add(more) + more <= limit_ || more <= 0) return true;
    used_.fetch_sub(more);
    return false;
  }

 private:
  const int64_t limit_;
  std::atomic<int64_t> used_{0};
};

class Share {
 public:
  explicit Share(Budget& budget) : budget_(budget) {}
  ~Share() { budget_.take(-held_); }
  Share(const Share&) = delete;
  Share& operator=(const Share&) = delete;
  // By one thread at a time. Throws ProtocolError, and holds what it held.
  void resize(int64_t bytes) {
    if (bytes == held_) return;
    if (!budget_.take(bytes - held_)) throw ProtocolError("the store is full");
    held_ = bytes;
  }

 private:
  Budget& budget_;
  int64_t held_ = 0;
};

}  // namespace npu::distributed::store
