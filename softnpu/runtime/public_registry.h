// What processes of all users hold of the devices, for npu-smi: a file of records a user in a folder that all share, /tmp or
// ANYCEND_PROCESS_FOLDER, which its owner writes and everybody may read. It says what ps says, and how much memory; no memory of a device
// can be reached by it. What it is not: the registry (registry.h), by which processes of one user agree on capacity: who may read a file
// may also lock it, so nothing waits for a lock here.
// Who uses it: registry.cpp writes, registry_view.cpp reads.
#pragma once

#include <cstdint>

namespace softnpu {

struct RegistryView;

// One process on one device. Another user's file is believed of that user's own processes, and of these only where pid and start agree.
struct PublicRecord {
  int32_t pid;  // 0: here and behind, nobody ever was. Never 0 again
  int16_t device;
  uint16_t locked;  // 1: the process holds a lock on the record, which exec takes away and another user cannot forge
  uint64_t
      process_started;  // ticks since the machine's start, as /proc/<pid>/stat says: a pid comes again. 0: it is being made
  uint64_t committed;
  uint64_t started_ns;
  char name[24];
  uint64_t busy;
};
static_assert(sizeof(PublicRecord) == 64);

// A record for the calling process, or null where there can be none: other users then do not see it. `like` has the rest.
struct RegistryRecord;
PublicRecord* publish(const RegistryRecord& like) noexcept;

// In a child of fork, whose parent the records are.
void forget_public_registry() noexcept;

// Adds live processes that the view has not yet. Files that are not as they should be are left out and counted in it.
void read_public_registries(RegistryView& view);

}  // namespace softnpu
