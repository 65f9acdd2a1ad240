// Exports: what clients tell the race detector and the memory checker beyond CANN's calls, and what those have found (acl/soft.h).
#include <optional>

#include "acl/soft.h"
#include "softnpu/race/place.h"
#include "softnpu/runtime/copy.h"
#include "softnpu/runtime/error.h"
#include "softnpu/runtime/pinned.h"
#include "softnpu/runtime/stream.h"
#include "softnpu/runtime/watch.h"

using namespace softnpu;

SOFTNPU_EXPORT void softnpuPlace(const char* place) { race::set_place(place); }
SOFTNPU_EXPORT void softnpuPlaceBy(const char* (*find)(void)) { race::set_finder(find); }

SOFTNPU_EXPORT void softnpuBlockGiven(const void* address, uint64_t asked, uint64_t bytes, aclrtStream stream) {
  if (!race::watched()) return;
  guarded(__func__, [&] {
    Stream& s = stream_of(stream);
    if (race::on()) race::given(address, bytes, named(s));
    if (!memcheck::on()) return;
    memcheck::forget(address, bytes);
    if (s.captured()) return;  // a graph keeps it, and gives it out again and again
    auto* begin = const_cast<char*>(static_cast<const char*>(address));
    fill(begin, asked, memcheck::kFresh, asked, &s);
    fill(begin + asked, bytes - asked, memcheck::kFence, bytes - asked, &s);
    memcheck::given(address, asked, bytes, &s);
  });
}

SOFTNPU_EXPORT void softnpuBlockBack(const void* address) {
  if (memcheck::on()) memcheck::taken_back(address);
}

SOFTNPU_EXPORT void softnpuRaceHost(const char* name, const void* address, int dims, const int64_t* sizes,
                                    const int64_t* strides, int item, int write) {
  if (!race::on()) return;
  guarded(__func__, [&] {
    if (!Pinned::get().contains(address, 1)) return;
    race::Accesses accesses;
    race::Access::add(accesses, address, dims, sizes, strides, item, write != 0);
    race::host_later(name, accesses);
  });
}

SOFTNPU_EXPORT uint64_t softnpuRaceCount(void) { return race::found(); }
SOFTNPU_EXPORT const char* softnpuRaceReport(uint64_t n) { return race::report(n); }
SOFTNPU_EXPORT uint64_t softnpuMemoryCount(void) { return memcheck::found(); }
SOFTNPU_EXPORT const char* softnpuMemoryReport(uint64_t n) { return memcheck::report(n); }
