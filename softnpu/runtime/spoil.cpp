#include "softnpu/runtime/spoil.h"

#include <time.h>

#include <memory>
#include <string>

namespace softnpu {
namespace {

struct Spoiled {
  Work first;
  sanitize::TaskFault fault;
  std::string message;

  static int run(void* state) noexcept {
    const auto& self = *static_cast<Spoiled*>(state);
    while (self.fault.hangs && !running_task_aborted()) {
      const timespec look{0, 5'000'000};
      nanosleep(&look, nullptr);
    }
    set_error_message(self.message.c_str());
    return self.fault.status;
  }
  static void drop(void* state) noexcept { delete static_cast<Spoiled*>(state); }
};

}  // namespace

Work spoiled(Work&& work, const sanitize::TaskFault& fault) {
  if (fault.status == 0 || work.cost() > Cost::kBlocking) return std::move(work);
  const char* name = work.name();
  const Cost cost = fault.hangs ? Cost::kBlocking : work.cost();
  auto state = std::make_unique<Spoiled>(std::move(work), fault, sanitize::fault_message());
  return Work({Spoiled::run, Spoiled::drop, state.release(), name, cost});
}

}  // namespace softnpu
