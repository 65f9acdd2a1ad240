#include "softnpu/runtime/spoil.h"

#include <time.h>

#include <algorithm>
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

// " (inputs: FLOAT[3,4], INT64[1])", as a kernel's own error has it (ops/describe.h).
void add_inputs(std::string& message, const trace::Tensors& in) {
  if (in.types.empty()) return;
  const char* before = " (inputs: ";
  for (size_t type = 0, shape = 0; type <= in.types.size(); before = ", ") {
    const size_t types_end = std::min(in.types.find(';', type), in.types.size());
    const size_t shapes_end = std::min(in.shapes.find(';', shape), in.shapes.size());
    message +=
        before + in.types.substr(type, types_end - type) + '[' + in.shapes.substr(shape, shapes_end - shape) + ']';
    type = types_end + 1, shape = shapes_end + 1;
  }
  message += ')';
}

}  // namespace

Work spoiled(Work&& work, const sanitize::TaskFault& fault) {
  if (fault.status == 0 || work.cost() > Cost::kBlocking) return std::move(work);
  const char* name = work.name();
  std::string message = sanitize::fault_message();
  add_inputs(message, work.described().in);
  const Cost cost = fault.hangs ? Cost::kBlocking : work.cost();
  auto state = std::make_unique<Spoiled>(std::move(work), fault, std::move(message));
  return Work({Spoiled::run, Spoiled::drop, state.release(), name, cost});
}

}  // namespace softnpu
