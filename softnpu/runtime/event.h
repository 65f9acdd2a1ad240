// An event: a position in a stream ("everything before this is done"), taken at record. Recording and waiting capture the
// position at the call, so re-recording or destroying an event changes nothing for those who wait already. Without timing a
// record is no task at all; with timing it is a tiny one that writes the clock.
// Between a graph and what is outside of it there are two ways. Recording or waiting with the flag EXTERNAL is done anew by each
// replay, when it is queued. An event made with ACL_EVENT_EXTERNAL is a flag instead of a position: recording sets it, a reset
// clears it, whoever waits sleeps until it is set, also if nobody has recorded it yet; all three are tasks, in graphs too.
// An event made with ACL_EVENT_IPC is in memory that processes share (shared_event.h).
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "softnpu/runtime/enqueue.h"
#include "softnpu/runtime/handle.h"

namespace softnpu {

class SharedEvent;
class Stream;
struct CaptureMark;

class Event {
 public:
  static constexpr uint8_t kMagic = 0x53;
  static constexpr uint32_t kMaxCount = 1 << 20;
  static constexpr const char* kNoun = "event";

  void open(uint32_t flags, std::shared_ptr<SharedEvent> shared = nullptr) noexcept;
  // Of an event made with ACL_EVENT_IPC; null otherwise.
  const std::shared_ptr<SharedEvent>& shared() const noexcept { return shared_; }

  uint32_t flags() const noexcept { return flags_; }
  void record(Stream& stream);
  // In a graph, of an event outside of it: done by each replay. The stream must be in a capture.
  void record_external(Stream& stream);
  void wait_external(Stream& stream);
  // `limit_ns`: after which the stream fails, counted from when it comes to the wait; 0: what aclrtSetOpWaitTimeout says.
  void wait_on(Stream& stream, int64_t limit_ns = 0, const char* task = "aclrtStreamWaitEvent");
  void reset(Stream& stream);
  bool recorded();
  // Done, or never recorded.
  bool done();
  // Have the waits put on streams so far been passed?
  bool waits_done();
  void synchronize(int64_t deadline);
  // When the work before the record was done; throws unless timed, recorded and done.
  int64_t timestamp_ns();
  const void* key() const noexcept;  // of the race detector: what it is recorded and waited for by

 private:
  struct Position {
    Stream* stream = nullptr;
    uint64_t target = 0;
  };
  struct TimeTask;
  struct FlagTask;

  bool is_flag() const noexcept;
  bool has_happened();
  void add_external(Stream& stream, Again again, const char* name);
  bool keep(Stream& stream, Again again, const char* name);
  bool keep_flag(Stream& stream, Again again, const char* name);

  Position position();  // throws for an event recorded in a capture

  std::atomic<uint32_t> flag_{0};        // of an event that is one
  std::shared_ptr<SharedEvent> shared_;  // set once, before the handle is given out

  std::mutex mutex_;  // guards all below; a leaf
  uint32_t flags_ = 0;
  Position recorded_;
  Position time_at_;    // the end of the timing task itself
  uint64_t epoch_ = 0;  // counts records over the slot's life: an overtaken timing task writes nothing
  int64_t time_ns_ = 0;
  std::vector<Position> waits_;
  std::shared_ptr<CaptureMark> mark_;  // recorded on a stream that is being captured
};

}  // namespace softnpu
