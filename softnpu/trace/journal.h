// What libmspti's subscriber has asked for and not been given yet: records as bytes, in the order they came. What it is not: the
// C ABI (mspti.cpp). It listens to the runtime's records while a subscriber has enabled a kind, and not otherwise.
// Of what is not its own, only trace::listen and ignore, which take no lock, are called with its lock held: no subscriber's function.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <mutex>
#include <string>
#include <unordered_set>
#include <vector>

#include "mspti/types.h"
#include "softnpu/runtime/trace.h"

namespace softnpu::mspti {

// Bytes of a record, as they lie in a buffer; 0 for a kind that there is not.
size_t size_of(msptiActivityKind kind) noexcept;

// There is no such kind; no room for a listener; no subscriber.
enum class Enabled : uint8_t { kDone, kUnknown, kTooMany, kNobody };
// No functions to ask for buffers with; or records were dropped since the last flush.
enum class Flushed : uint8_t { kDone, kNoCallbacks, kLost };

class Journal {
 public:
  static Journal& get();

  // False: there is one already.
  bool subscribe() noexcept;
  bool unsubscribe() noexcept;
  bool subscribed() const noexcept { return subscribed_.load(std::memory_order_acquire); }

  void set_buffers(msptiBuffersCallbackRequestFunc request, msptiBuffersCallbackCompleteFunc complete) noexcept;
  Enabled enable(msptiActivityKind kind, bool on) noexcept;
  bool enabled(msptiActivityKind kind) const noexcept;

  // Gives what there is to the subscriber, in buffers that it is asked for.
  Flushed flush() noexcept;
  // The same where much has come together. On a thread that may wait. What is lost here the next flush tells.
  void relieve() noexcept;

  // The same text for the subscriber's records. It stays until a subscriber after the next one comes: who has ended still reads its records.
  const char* kept(const char* text) noexcept;

  template <class Activity>
  void add(const Activity& activity) noexcept {
    static_assert(sizeof(Activity) % 8 == 0);
    append(&activity, sizeof activity);
  }

 private:
  static constexpr size_t kMuch = 4 << 20;

  void append(const void* record, size_t bytes) noexcept;
  Flushed give() noexcept;  // flushing_ held

  std::atomic<bool> subscribed_{false};
  std::atomic<uint64_t> kinds_{0};
  std::atomic<size_t> waiting_{0};  // bytes of records_
  std::mutex mutex_;                // guards what follows
  std::vector<uint8_t> records_;
  std::unordered_set<std::string> texts_, before_;  // of marks: this subscriber's, and those of the one before
  bool lost_ = false;                               // a record, since the last flush
  msptiBuffersCallbackRequestFunc request_ = nullptr;
  msptiBuffersCallbackCompleteFunc complete_ = nullptr;
  std::mutex flushing_;  // one flush at a time; before mutex_
};

// The calling thread's stack of numbers of a kind of outer program (torch's operators), and what calls inside them are told by.
struct Outer {
  std::vector<uint64_t> ids[MSPTI_EXTERNAL_CORRELATION_KIND_SIZE];
};
Outer& outer() noexcept;

}  // namespace softnpu::mspti
