// The registries as a reader sees them: which live processes hold which devices, this user's by the registry, the others by what each user
// shows (public_registry.h). Nothing is created, locked or mapped, and nothing of a file is believed unseen: it may be of another version,
// cut short or overwritten.
// Who uses it: utilization.h, softnpu/dcmi; registry.cpp takes the folder's name from here.
#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "softnpu/runtime/registry.h"

namespace softnpu {

// $XDG_RUNTIME_DIR/anycend, else a folder of the user's own in /tmp.
std::string registry_folder();

struct RegistryView {
  int64_t at_ns = 0;                    // CLOCK_MONOTONIC
  std::vector<RegistryRecord> records;  // of live processes, by device and process; names are printable and end
  bool full = false;                    // this user's registry has no room: more processes are not in it
  struct Damaged {
    int files = 0;
    std::string one{};  // the first of them by name, printable
  };
  std::map<unsigned, Damaged> left_out;  // files of other users (or by another registry of this one's), by user
  std::set<unsigned> too_many{};         // users with more records in their files than are read
};

inline constexpr uint64_t kMostDeviceBytes = uint64_t{1} << 50;  // no device has more
void make_printable(char* name) noexcept;

// Throws Error naming this user's file and what is wrong with it. No file: no records.
RegistryView read_registry();

}  // namespace softnpu
