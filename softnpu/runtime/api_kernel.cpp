// Export: kernels that clients have compiled for the processor (acl/soft.h). On a stream they are what an aclnn kernel is: the
// same threads by the same costs, captured and replayed, and an error stays on the stream.
#include <cstdio>
#include <utility>

#include "acl/soft.h"
#include "softnpu/race/place.h"
#include "softnpu/runtime/error.h"
#include "softnpu/runtime/stream.h"
#include "softnpu/runtime/trace.h"
#include "softnpu/runtime/work.h"

using namespace softnpu;

namespace {

struct ClientKernel {
  softnpuKernel of_client;

  static int run(void* state) noexcept {
    const softnpuKernel& kernel = static_cast<ClientKernel*>(state)->of_client;
    char text[400] = "";
    if (__builtin_expect(kernel.run(kernel.state, text, sizeof text) == 0, 1)) return 0;
    char message[600];
    snprintf(message, sizeof message, "%s: %s", kernel.name, text);
    set_error_message(message);
    return ACL_ERROR_RT_AICORE_EXCEPTION;
  }

  static void drop(void* state) noexcept {
    const softnpuKernel& kernel = static_cast<ClientKernel*>(state)->of_client;
    if (kernel.drop) kernel.drop(kernel.state);
  }
};

const bool described =
    trace::describe(ClientKernel::run, [](const void*, trace::Description& what) { what.kind = trace::Kind::kKernel; });

constexpr Cost kCosts[] = {Cost::kTiny, Cost::kSerial, Cost::kWide};

}  // namespace

SOFTNPU_EXPORT aclError softnpuLaunchKernel(aclrtStream stream, const softnpuKernel* kernel) {
  if (kernel == nullptr || kernel->run == nullptr || kernel->name == nullptr) {
    return guarded(__func__, [&] {
      need(kernel, "kernel");
      need(reinterpret_cast<void*>(kernel->run), "kernel->run");
      need(kernel->name, "kernel->name");
    });
  }
  const unsigned cost = kernel->cost;
  const bool known = cost < sizeof kCosts / sizeof *kCosts;
  // Owned here until a stream took it: dropped on return where none did.
  Work work({ClientKernel::run, ClientKernel::drop, nullptr, kernel->name, kCosts[known ? cost : 0]},
            ClientKernel{*kernel});
  return guarded(__func__, [&] {
    if (!known) fail(ACL_ERROR_INVALID_PARAM, "kernel->cost is %u, and there is no such cost", cost);
    const race::Asked place;
    stream_of(stream).submit(std::move(work));
  });
}
