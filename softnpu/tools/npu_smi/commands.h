// What npu-smi prints, by what is asked. What it is not: the command line (main.cpp). The forms are the vendor's: scripts look for words,
// columns and positions in them.
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace softnpu::npu_smi {

// One NPU, or one chip of it, or none named.
struct Place {
  std::optional<int> npu, chip;
};

struct Query {
  const char* type;           // of -t
  const char* what;           // for the help
  void (*run)(const Place&);  // refuses what is not there
};
const std::vector<Query>& queries();

void table();     // info
void list();      // info -l
void mapping();   // info -m
void topology();  // info -t topo
// info watch, until it is ended: `what` is letters of kWatched.
inline constexpr const char* kWatched = "ptaicmbnu";
void watch(const Place& place, int seconds, const std::string& what);
void watch_help();
// set -t reset: an NPU that nobody uses has nothing to reset.
void reset(const Place& place);

// How long a sample of the devices' work is, where nothing says since when.
inline constexpr int kSampleMs = 100;

// A line of a query: a tab, the name, a colon, the value.
void line(const char* name, const std::string& value);
// The chips that a place means. Throws for one that is not there.
struct Chip {
  int npu, chip, physical;
};
std::vector<Chip> chips(const Place& place);

}  // namespace softnpu::npu_smi
