#include "softnpu/runtime/watch.h"

#include "softnpu/runtime/capture.h"
#include "softnpu/runtime/error.h"
#include "softnpu/runtime/stream.h"
#include "softnpu/runtime/work.h"

namespace softnpu {
namespace {

void fail_with(const char* report) { fail(ACL_ERROR_RT_INTERNAL_ERROR, "race (ANYCEND_CHECK_EXIT=1): %s", report); }

}  // namespace

race::Stream named(Stream& stream) {
  race::Stream s{&stream, stream.device(), int(slab<Stream>().index_of(&stream))};
  if (stream.captured())
    if (const auto capture = Capture::of(stream)) s.capture = capture->id();
  return s;
}

void watch(Stream& stream, const Work& work) {
  if (work.cost() == Cost::kWait) return;
  race::Accesses accesses;
  work.told(accesses);
  if (const char* report = race::task(named(stream), work.name(), accesses)) fail_with(report);
}

void watch_host(const char* name, const race::Accesses& accesses) {
  if (accesses.empty()) return;
  if (const char* report = race::host(name, accesses)) fail_with(report);
}

}  // namespace softnpu
