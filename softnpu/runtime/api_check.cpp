// Exports: what clients tell the race detector and the memory checker beyond CANN's calls, and what those have found (acl/soft.h).
#include <optional>

#include "acl/soft.h"
#include "softnpu/race/place.h"
#include "softnpu/runtime/copy.h"
#include "softnpu/runtime/error.h"
#include "softnpu/runtime/event.h"
#include "softnpu/runtime/pinned.h"
#include "softnpu/runtime/stream.h"
#include "softnpu/runtime/watch.h"

using namespace softnpu;

SOFTNPU_EXPORT void softnpuPlace(const char* place) { race::set_place(place); }
SOFTNPU_EXPORT void softnpuPlaceBy(const char* (*find)(int may_wait)) { race::set_finder(find); }

SOFTNPU_EXPORT void softnpuStreamNumber(aclrtStream stream, int number) {
  if (!race::on()) return;
  guarded(__func__, [&] { race::numbered(named(stream_of(stream)), number); });
}

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
  if (!memcheck::on()) return;
  const race::Asked asked(/*may_wait=*/false);
  memcheck::taken_back(address);
}

SOFTNPU_EXPORT int softnpuOwnQuestion(int own) { return race::own_question(own != 0); }

SOFTNPU_EXPORT void softnpuBlockOver(const void* address, uint64_t bytes, aclrtEvent event) {
  if (!race::on()) return;
  guarded(__func__, [&] { race::over(slab<Event>().get(event).key(), address, bytes); });
}

SOFTNPU_EXPORT const char* softnpuRaceHost(const char* name, const void* address, int dims, const int64_t* sizes,
                                           const int64_t* strides, int item, int write) {
  const char* report = nullptr;
  if (!race::on()) return report;
  guarded(__func__, [&] {
    if (!Pinned::get().contains(address, 1)) return;
    race::Accesses accesses;
    race::Access::add(accesses, address, dims, sizes, strides, item, write != 0);
    report = race::host(name, accesses);
  });
  return report;
}
SOFTNPU_EXPORT void softnpuRaceOwed(const char* report) { race::owe(report); }

SOFTNPU_EXPORT uint64_t softnpuRaceCount(void) { return race::found(); }
SOFTNPU_EXPORT const char* softnpuRaceReport(uint64_t n) { return race::report(n); }
SOFTNPU_EXPORT uint64_t softnpuMemoryCount(void) { return memcheck::found(); }
SOFTNPU_EXPORT const char* softnpuMemoryReport(uint64_t n) { return memcheck::report(n); }
