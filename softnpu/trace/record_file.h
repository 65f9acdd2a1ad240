// What lies in PROF_*/host/data/records, in this machine's order of bytes; softnpu/tools/msprof/recorded.py reads it. Times are
// nanoseconds since 1970, texts numbers of records of kind kText (0: none), -1 a device or stream that there is not.
#pragma once

#include <cstdint>

namespace softnpu::prof::file {

enum Kind : uint32_t { kText = 1, kTask = 2, kCall = 3, kMark = 4, kMemory = 5, kClock = 6 };

struct Text {
  uint32_t number;  // the text's bytes follow
};

struct Tensors {
  uint32_t shapes, types, formats;
};

struct Task {
  uint64_t correlation, task;
  int64_t queued, began, ended;
  uint64_t bytes, count;
  int32_t device, stream, status, detail, rank, ranks;
  uint32_t kind, name, group;
  Tensors in, out;
  uint32_t unused;
};
static_assert(sizeof(Task) == 120);

struct Call {
  uint64_t correlation;
  int64_t began, ended;
  uint32_t name, kind, thread, asynchronous;
};
static_assert(sizeof(Call) == 40);

struct Mark {
  int64_t at;
  uint64_t id;
  uint32_t name, domain, point, on_stream;
  int32_t device, stream;
  uint32_t thread, unused;
};
static_assert(sizeof(Mark) == 48);

struct Memory {
  int64_t at;
  uint64_t bytes;
  int32_t device, unused;
};
static_assert(sizeof(Memory) == 24);

// The same moment in the clock of records and in CLOCK_MONOTONIC_RAW: at the beginning and at the end.
struct Clock {
  int64_t real, raw;
};
static_assert(sizeof(Clock) == 16);

}  // namespace softnpu::prof::file
