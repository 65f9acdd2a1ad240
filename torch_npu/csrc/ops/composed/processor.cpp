#include "csrc/ops/composed/processor.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/ops/empty_strided.h>
#include <ATen/ops/from_blob.h>
#include <c10/core/InferenceMode.h>

#include <atomic>
#include <cstdio>
#include <memory>

#include "csrc/cann/error.h"
#include "csrc/cann/host_kernel.h"
#include "csrc/core/launch.h"
#include "csrc/core/stream.h"
#include "csrc/ops/fallback.h"

namespace npu {
namespace {

std::atomic<bool> g_compositions{false};

struct Call {
  Tensors outs, ins;
  ProcessorKernel kernel;

  static int run(void* state, char* message, size_t room) noexcept {
    auto& self = *static_cast<Call*>(state);
    // On the stream's thread, whatever mode the caller was in: what was made in inference mode may be written in it only.
    const c10::InferenceMode on;
    try {
      self.kernel(self.outs, self.ins);
      return 0;
    } catch (const c10::Error& e) {
      snprintf(message, room, "%s", e.what_without_backtrace());
    } catch (const std::exception& e) {
      snprintf(message, room, "%s", e.what());
    }
    return -1;
  }
  static void drop(void* state) noexcept { delete static_cast<Call*>(state); }
};

at::Tensor on_processor(const at::Tensor& x) {
  if (!x.defined() || x.is_cpu()) return x;
  return at::from_blob(x.data_ptr(), x.sizes(), x.strides(), x.options().device(at::kCPU));
}

Tensors on_processor(const Tensors& tensors) {
  Tensors result;
  for (const at::Tensor& x : tensors) result.push_back(on_processor(x));
  return result;
}

}  // namespace

bool has_processor_kernels() {
  static const bool found = cann::host_kernel_launcher() != nullptr;
  return found && !g_compositions.load(std::memory_order_relaxed);
}

void prefer_compositions(bool on) noexcept { g_compositions.store(on, std::memory_order_relaxed); }

void run_on_processor(const char* name, const Tensors& outs, const Tensors& ins, ProcessorKernel kernel) {
  Tensors plain;
  for (const at::Tensor& x : ins) plain.push_back(x.defined() ? x.resolve_conj().resolve_neg() : x);
  auto call = std::make_unique<Call>(on_processor(outs), on_processor(plain), std::move(kernel));
  const softnpuKernel kernel_of_call{Call::run, Call::drop, call.release(), name, SOFTNPU_WIDE};
  const auto softnpuLaunchKernel = cann::host_kernel_launcher();
  NPU_CHECK(softnpuLaunchKernel(current_raw_stream(), &kernel_of_call));
  wait_if_blocking();
}

void run_on_processor_or_copies(const char* op, const Tensors& outs, const Tensors& ins,
                                const ProcessorKernel& kernel) {
  if (has_processor_kernels()) return run_on_processor(op, outs, ins, kernel);
  count_fallback(c10::Dispatcher::singleton().findSchemaOrThrow((std::string("aten::") + op).c_str(), ""));
  Tensors host_outs, host_ins;
  for (const at::Tensor& x : ins) host_ins.push_back(x.defined() ? x.cpu() : x);
  for (const at::Tensor& x : outs) {
    host_outs.push_back(at::empty_strided(x.sizes(), x.strides(), x.options().device(at::kCPU)));
  }
  kernel(host_outs, host_ins);
  for (size_t i = 0; i < outs.size(); ++i) outs[i].copy_(host_outs[i]);
}

}  // namespace npu
