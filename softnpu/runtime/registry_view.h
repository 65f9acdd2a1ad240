// The registry as a reader sees it: which live processes hold which devices. Nothing is created, locked or mapped, and nothing of
// the file is believed unseen: it may be of another version, cut short or overwritten.
// Who uses it: utilization.h, softnpu/dcmi; registry.cpp takes the folder's name from here.
#pragma once

#include <string>
#include <vector>

#include "softnpu/runtime/registry.h"

namespace softnpu {

// $XDG_RUNTIME_DIR/anycend, else a folder of the user's own in /tmp.
std::string registry_folder();

struct RegistryView {
  int64_t at_ns = 0;                    // CLOCK_MONOTONIC
  std::vector<RegistryRecord> records;  // of live processes; names are printable and end
};

// Throws Error naming the file and what is wrong with it. No file: no records.
RegistryView read_registry();

}  // namespace softnpu
