// How reports of the race detector and the memory checker name addresses and lines of the program. Who uses it: report.cpp, and
// softnpu/memcheck.
#pragma once

#include <cstdint>
#include <cstdio>
#include <string>

namespace softnpu::race {

inline std::string hex(uintptr_t address) {
  char text[32];
  std::snprintf(text, sizeof text, "%#zx", static_cast<size_t>(address));
  return text;
}

// `place` as place() in accesses.h has it.
inline std::string line(const char* place) { return place ? place : "line not known"; }

}  // namespace softnpu::race
