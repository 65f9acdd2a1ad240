// ProfilerState.PRIVATEUSE1: each operator is a range of mstx, as PyTorch's emit_nvtx makes it one of nvtx. Who turns it on:
// torch_npu.npu.mstx.emit_mstx (torch_npu/npu/ranges.py). What it is not: a profile of PyTorch's own (kineto.cpp).
#include <c10/util/Exception.h>
#include <c10/util/ThreadLocalDebugInfo.h>
#include <torch/csrc/profiler/standalone/privateuse1_observer.h>
#include <torch/csrc/profiler/util.h>

#include <memory>
#include <string>
#include <unordered_set>

#include "csrc/cann/mspti.h"
#include "csrc/core/lifecycle.h"
#include "csrc/core/stream.h"

namespace npu::profiler {
namespace {

using torch::profiler::impl::ActiveProfilerType;
using torch::profiler::impl::ProfilerConfig;
using torch::profiler::impl::ProfilerStateBase;

struct Emitting final : ProfilerStateBase {
  using ProfilerStateBase::ProfilerStateBase;
  ActiveProfilerType profilerType() override { return ActiveProfilerType::PRIVATEUSE1; }
  void reportMemoryUsage(void*, int64_t, size_t, size_t, c10::Device) override {}
};

// The number lies with the operator and not on a stack of the thread: an operator may end in another one.
struct Range final : at::ObserverContext {
  explicit Range(mstxRangeId number) : number(number) {}
  mstxRangeId number;
};

// As getNvtxStr of PyTorch has it, without the operators' numbers: "aten::mm, seq = 3, sizes = [[2, 4], [4, 8]]".
std::string text_of(const at::RecordFunction& fn, bool sizes) {
  std::string text = fn.name();
  if (fn.seqNr() >= 0) text += ", seq = " + std::to_string(fn.seqNr());
  if (!sizes) return text;
  const auto of_inputs = torch::profiler::impl::inputSizes(fn, true);
  if (!of_inputs.empty()) text += ", sizes = " + torch::profiler::impl::shapesToStr(of_inputs);
  return text;
}

// None where the device is lost: the range then has its place on the host alone.
aclrtStream stream_or_none() noexcept {
  try {
    return current_raw_stream();
  } catch (const c10::Error&) {
    return nullptr;
  }
}

template <bool sizes>
std::unique_ptr<at::ObserverContext> enter(const at::RecordFunction& fn) {
  auto* start = cann::mspti().mstxRangeStartA;
  if (!start || in_bad_fork()) return nullptr;  // a loader's worker has inherited the callback
  return std::make_unique<Range>(start(text_of(fn, sizes).c_str(), stream_or_none()));
}

void leave(const at::RecordFunction&, at::ObserverContext* context) {
  auto* end = cann::mspti().mstxRangeEnd;
  if (const auto* range = static_cast<Range*>(context); range && end) end(range->number);
}

void push(const ProfilerConfig& config, const std::unordered_set<at::RecordScope>& scopes) {
  TORCH_CHECK(
      !config.profile_memory && !config.with_stack && !config.with_flops && !config.with_modules,
      "npu: a range of mstx has an operator's name and sizes; memory, stacks, flops and modules are of torch.profiler");
  auto state = std::make_shared<Emitting>(config);
  state->setCallbackHandle(at::addThreadLocalCallback(
      at::RecordFunctionCallback(config.report_input_shapes ? &enter<true> : &enter<false>, &leave)
          .needsInputs(config.report_input_shapes)
          .scopes(scopes)));
  c10::ThreadLocalDebugInfo::_push(c10::DebugInfoKind::PROFILER_STATE, std::move(state));
}

const bool emit_registered =
    (torch::profiler::impl::pushPRIVATEUSE1CallbacksStub.set_privateuse1_dispatch_ptr(&push), true);

}  // namespace
}  // namespace npu::profiler
