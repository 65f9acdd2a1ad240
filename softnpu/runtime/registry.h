// What each process of this user holds of each device: a small file of records in $XDG_RUNTIME_DIR/anycend (or a private
// folder in /tmp), shared by mapping. Each process holds a lock on its own records; a dead one's records are free at once. What other
// users may see of it is written to public_registry.h as well.
// Who uses it: arenas (capacity across processes, one growth at a time), busy.cpp, and who only reads: registry_view.h.
#pragma once

#include <cstdint>
#include <mutex>

#include "softnpu/runtime/limits.h"
#include "softnpu/runtime/public_registry.h"

namespace softnpu {

// One process on one device. The file is a header of zeros, as long as a record, and then these; the layout is the contract with
// npu-smi and libdcmi (registry_view.h), too.
struct RegistryRecord {
  int32_t pid;
  int16_t device;       // physical id
  uint16_t lost;        // 1: the process has lost the device (ANYCEND_FAULT)
  uint64_t committed;   // bytes backed by memory
  uint64_t used;        // bytes of live blocks
  uint64_t started_ns;  // CLOCK_REALTIME
  char name[24];        // of the process
  uint64_t busy;        // busy_ns() reads it
};
static_assert(sizeof(RegistryRecord) == 64);

// How long the process has worked on the device, in one word, so that one store changes it and no reader sees a half: the sum while
// it rests; while it works this bit and the moment (CLOCK_MONOTONIC) from which it would have worked without a rest.
inline constexpr uint64_t kBusyNow = uint64_t{1} << 63;
inline uint64_t busy_ns(uint64_t busy, int64_t now) noexcept {
  return busy & kBusyNow ? uint64_t(now) - (busy & ~kBusyNow) : busy;
}

class Registry {
 public:
  static constexpr int kRecords = 65535;  // the file has holes: 4 MB are not used

  static Registry& get();

  // Holds the machine-wide right to grow while it lives.
  class Growth {
   public:
    ~Growth();
    Growth(const Growth&) = delete;
    uint64_t used_by_others(int device) noexcept;
    void set_used(int device, uint64_t committed, uint64_t used) noexcept {
      registry_.set_used(device, committed, used);
    }

   private:
    friend class Registry;
    explicit Growth(Registry& r);
    Registry& registry_;
    std::lock_guard<std::mutex> in_process_;  // the file's lock is per process
    bool locked_;
  };

  Growth begin_growth() { return Growth(*this); }
  void set_used(int device, uint64_t committed, uint64_t used) noexcept;
  void set_lost(int device, bool lost) noexcept;
  // RegistryRecord::busy of this process on the device, and the public record's; null where there is no record.
  struct Busy {
    uint64_t *own = nullptr, *shown = nullptr;
  };
  Busy busy(int device) noexcept;

 private:
  Registry();
  bool lock(int64_t start, int64_t length, bool wait_briefly) noexcept;
  bool held_by_other(int index) noexcept;
  RegistryRecord* mine(int device) noexcept;

  int fd_ = -1;  // -1: no registry could be made; every process then counts itself only
  RegistryRecord* records_ = nullptr;
  std::mutex growth_mutex_;                // before mutex_
  std::mutex mutex_;                       // guards what follows
  int index_[kMaxDevices];                 // our record by physical device, -1: none yet
  PublicRecord* shown_[kMaxDevices] = {};  // and what others see of it
};

}  // namespace softnpu
