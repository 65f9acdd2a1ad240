#include "softnpu/runtime/watch.h"

#include <cstring>
#include <vector>

#include "softnpu/race/meeting.h"
#include "softnpu/runtime/capture.h"
#include "softnpu/runtime/config.h"
#include "softnpu/runtime/error.h"
#include "softnpu/runtime/registry_view.h"
#include "softnpu/runtime/stream.h"

namespace softnpu {
namespace {

void fail_with(const char* what, const char* report) {
  fail(ACL_ERROR_RT_INTERNAL_ERROR, "%s (ANYCEND_CHECK_EXIT=1): %s", what, report);
}

struct Fenced {
  Work work;
  std::vector<memcheck::Fence> fences;
  const char* place;

  static int run(void* state) noexcept {
    auto& [work, fences, place] = *static_cast<Fenced*>(state);
    std::erase_if(fences, [](const memcheck::Fence& fence) { return memcheck::broken(fence) != nullptr; });
    int code = work.run();
    for (const memcheck::Fence& fence : fences) {
      const unsigned char* byte = memcheck::broken(fence);
      const char* report = byte ? memcheck::wrote_behind(work.name(), place, byte) : nullptr;
      if (!report || code) continue;
      set_error_message(report);
      code = ACL_ERROR_RT_AICORE_EXCEPTION;
    }
    return code;
  }
  static void drop(void* state) noexcept { delete static_cast<Fenced*>(state); }
};
const bool fences_described = trace::describe(Fenced::run, [](const void* state, trace::Description& what) {
  what = static_cast<const Fenced*>(state)->work.described();
});

// Tasks by which streams and hosts hear of each other without an event, also of a graph that is replayed.
struct Door {
  const char* name;
  bool says, hears;
};
constexpr Door kDoors[] = {
    {"aclrtLaunchHostFunc", true, true},
    {"aclrtLaunchCallback", true, true},
    {"aclrtValueWrite", true, false},
    {"aclrtValueWait", false, true},
};

bool start_watching() {
  if (config().race) race::start(config().check_fails, registry_folder().c_str());
  if (config().memory_check) memcheck::start(config().check_fails);
  return true;
}

}  // namespace

void watch_if_asked() {
  if (!config().race && !config().memory_check) return;
  static const bool started = start_watching();
  (void)started;
}

race::Stream named(Stream& stream) {
  race::Stream s{&stream, stream.device(), int(slab<Stream>().index_of(&stream))};
  if (stream.captured())
    if (const auto capture = Capture::of(stream)) s.capture = capture->id();
  return s;
}

std::optional<Work> watch(Stream& stream, Work& work) {
  if (work.cost() == Cost::kWait) return std::nullopt;
  race::Accesses accesses;
  race::take_meetings();
  const bool known = work.told(accesses);
  if (race::on()) {
    if (const char* report = race::task(named(stream), work.name(), accesses)) fail_with("race", report);
    for (const Door& door : kDoors)
      if (strcmp(door.name, work.name()) == 0) race::opens(named(stream), door.says, door.hears);
  }
  if (!memcheck::on() || stream.captured()) return std::nullopt;  // what is captured does not run
  if (!known) memcheck::opaque();
  if (const char* report = memcheck::task(work.name(), accesses)) fail_with("memory", report);
  if (work.cost() > Cost::kWide || (known && accesses.empty())) return std::nullopt;
  auto fences = memcheck::fences(accesses, &stream);
  if (fences.empty()) return std::nullopt;
  const Cost cost = work.cost();
  const char* name = work.name();
  return Work({Fenced::run, Fenced::drop, new Fenced{std::move(work), std::move(fences), race::place()}, name, cost});
}

void watch_host(const char* name, const race::Accesses& accesses) {
  if (accesses.empty()) return;
  if (race::on())
    if (const char* report = race::host(name, accesses)) fail_with("race", report);
  if (memcheck::on())
    if (const char* report = memcheck::task(name, accesses)) fail_with("memory", report);
}

void memory_gone(const void* address, uint64_t bytes) noexcept {
  if (race::on()) race::freed(address, bytes);
  if (memcheck::on()) memcheck::forget(address, bytes);
}

void memory_unmapped(const void* address, uint64_t bytes) noexcept {
  if (race::on()) race::unmapped(address, bytes);
  if (memcheck::on()) memcheck::forget(address, bytes);
}

}  // namespace softnpu
