// Exports: what clients tell the race detector beyond CANN's calls, and what it has found (acl/soft.h).
#include "acl/soft.h"
#include "softnpu/race/race.h"
#include "softnpu/runtime/error.h"
#include "softnpu/runtime/pinned.h"
#include "softnpu/runtime/stream.h"
#include "softnpu/runtime/watch.h"

using namespace softnpu;

SOFTNPU_EXPORT void softnpuRacePlace(const char* place) { race::set_place(place); }

SOFTNPU_EXPORT void softnpuRaceBlock(const void* address, uint64_t bytes, aclrtStream stream) {
  if (!race::on()) return;
  guarded(__func__, [&] { race::given(address, bytes, named(stream_of(stream))); });
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
