// An event that several processes use (ACL_EVENT_IPC): two counters in a memfd of the process that made it, records begun and records
// passed. Any process may record it and wait for it; a wait is for the records begun when it was called. A slot's counters never go
// back, so a wait that outlives the event is over when its record is. A process that dies before its stream came to the record makes
// those who wait fail, within schedule::kAbortNs or so; the memory goes with the last process that has it open.
// What it is not: an event of one process (event.h), which is a position and no task. Who calls it: event.cpp, api_event.cpp.
#pragma once

#include <cstdint>
#include <memory>

#include "acl/types.h"

namespace softnpu {

namespace race {
struct Stamp;
}
class Stream;

class SharedEvent {
 public:
  static std::shared_ptr<SharedEvent> make();
  // Of another process of this user, or of this one.
  static std::shared_ptr<SharedEvent> open(const aclrtIpcEventHandle& handle);
  ~SharedEvent();

  aclrtIpcEventHandle handle() const noexcept;

  void record(Stream& stream);
  // `limit_ns`: after which the stream fails, counted from when it comes to the wait; 0: never.
  void wait_on(Stream& stream, int64_t limit_ns, const char* task);
  bool recorded() const noexcept;
  // Done, or never recorded. Throws when it will never be.
  bool done() const;
  void synchronize(int64_t deadline) const;

 private:
  struct Slot;
  struct Board;
  struct RecordTask;
  struct WaitTask;

  SharedEvent(std::shared_ptr<Board> board, uint32_t slot, uint32_t base, bool mine);
  Slot& slot() const noexcept;
  race::Stamp* stamp() const noexcept;  // null: nobody looks for races, or there is no memory for it
  static bool passed(const Slot& slot, uint32_t target) noexcept;
  // Null, or why a record that has not been passed never will be.
  static const char* why_never(const Slot& slot, uint32_t target, char* text, int size) noexcept;

  std::shared_ptr<Board> board_;
  uint32_t slot_;
  uint32_t base_;  // records of the slot before this event
  bool mine_;      // the slot is this process's to give back
};

}  // namespace softnpu
