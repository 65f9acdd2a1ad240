// Phase two: choose a thread by cost, queue the executor, run it. What runs on a stream is run_task.
#include <ATen/Parallel.h>

#include <chrono>
#include <cmath>
#include <cstdio>
#include <new>

#include "softnpu/nnopbase/error.h"
#include "softnpu/ops/describe.h"
#include "softnpu/ops/each_tensor.h"
#include "softnpu/ops/frame.h"
#include "softnpu/ops/guard.h"
#include "softnpu/ops/launch.h"
#include "softnpu/ops/op.h"
#include "softnpu/ops/rehearse.h"
#include "softnpu/runtime/trace.h"

namespace softnpu::ops {

using nnopbase::Arg;
using nnopbase::Kind;
using nnopbase::TensorCopy;

namespace {

constexpr float kTinyNs = 20000;     // what may run on the caller's thread
constexpr int64_t kGrain = 32768;    // ATen's: below it an elementwise kernel uses one thread
constexpr float kDispatchNs = 1500;  // of one ATen call

// `e`: whose inputs the message says; null where the caller says them.
int report_failure(const char* name, int status, const char* what, const aclOpExecutor* e = nullptr) noexcept {
  Message message;
  message.add("%s: %s", name, without_name(name, what));
  if (e) message.add_inputs(*e);
  set_error_message(message.text());
  return status;
}

template <class Body>
int guarded(const Op& op, int threads, const Body& body, const aclOpExecutor* e = nullptr) noexcept {
  try {
    KernelGuard guard(threads);
    body();
    return 0;
  } catch (const c10::NotImplementedError& error) {
    return report_failure(op.name, ACLNN_ERR_INNER_FIND_KERNEL_ERROR, error.what_without_backtrace(), e);
  } catch (const c10::OutOfMemoryError& error) {
    return report_failure(op.name, ACL_ERROR_RT_MEMORY_ALLOCATION, error.what_without_backtrace(), e);
  } catch (const c10::Error& error) {
    return report_failure(op.name, ACL_ERROR_RT_AICORE_EXCEPTION, error.what_without_backtrace(), e);
  } catch (const std::bad_alloc&) {
    return report_failure(op.name, ACL_ERROR_RT_MEMORY_ALLOCATION, "out of host memory", e);
  } catch (const std::exception& error) {
    return report_failure(op.name, ACL_ERROR_RT_AICORE_EXCEPTION, error.what(), e);
  }
}

__attribute__((noinline)) int run_by_aten(const Op& op, const aclOpExecutor& e) noexcept {
  const auto body = [&] {
    Frame frame(e);
    op.run(frame);
    frame.check_outputs();
  };
  return guarded(op, e.threads, body, &e);
}

int run(const Op& op, const aclOpExecutor& e) noexcept {
  if (op.fast && !KernelGuard::flushes_denormals() && op.fast(e.args)) return 0;
  return run_by_aten(op, e);
}

// A kernel cannot be cut short: one that takes too long fails when it ends.
__attribute__((noinline)) int run_within(int64_t limit_ns, const Op& op, const aclOpExecutor& e) noexcept {
  const auto begin = std::chrono::steady_clock::now();
  const int status = run(op, e);
  const std::chrono::nanoseconds took = std::chrono::steady_clock::now() - begin;
  if (status || took.count() <= limit_ns) return status;
  char text[160];
  std::snprintf(text, sizeof text, "it took %.3f s, and the limit is %.3f s (aclrtSetOpExecuteTimeOut)",
                static_cast<double>(took.count()) / 1e9, static_cast<double>(limit_ns) / 1e9);
  return report_failure(op.name, ACL_ERROR_RT_AICORE_TIMEOUT, text);
}

int run_task(void* state) noexcept {
  const auto& e = *static_cast<aclOpExecutor*>(state);
  const Op& op = *static_cast<const Op*>(e.op);
  if (const int64_t limit = operator_limit_ns()) return run_within(limit, op, e);
  return run(op, e);
}

void drop_task(void* state) noexcept { nnopbase::release_executor(static_cast<aclOpExecutor*>(state)); }

const bool described = trace::describe(run_task, describe_task) && race::tells(run_task, tell_task);

// Multiply-adds: every element of the first output needs one for each element of its row of weights.
float flops(const Op& op, const aclOpExecutor& e) {
  const TensorCopy* in[3] = {};
  const TensorCopy* out = nullptr;
  int n = 0;
  for (int i = 0; i < e.nargs; i++) {
    const Arg& a = e.args[i];
    if (a.kind != Kind::kTensor || !a.tensor) continue;
    if (a.out && !out) out = a.tensor;
    if (!a.out && n < 3) in[n++] = a.tensor;
  }
  if (!out || n < 2) return static_cast<float>(e.elements) * 64;
  if (op.rule == CostRule::kMatmul) {
    // out = [.., M, N]; the inner size is what the last two inputs have beyond M and N.
    const TensorCopy* a = n == 3 && in[2]->ndim >= 2 ? in[1] : in[0];
    int64_t inner = a->ndim ? a->sizes()[a->ndim - 1] : 1;
    return static_cast<float>(out->numel) * static_cast<float>(inner);
  }
  float weight = 1;
  const TensorCopy* w = in[1];
  for (int i = 1; i < w->ndim; i++) weight *= static_cast<float>(w->sizes()[i]);
  return static_cast<float>(std::max(out->numel, in[0]->numel)) * weight;
}

Cost cost_of(const Op& op, const aclOpExecutor& e) {
  if (std::isinf(op.ns)) return Cost::kBlocking;  // `waits` in ops/aclnn.yaml: for what other ranks or the host do
  float ns = kDispatchNs;
  if (op.rule == CostRule::kElements || op.rule == CostRule::kSerial) {
    ns += op.ns * static_cast<float>(e.elements);
    if (ns <= kTinyNs) return Cost::kTiny;
    return op.rule == CostRule::kSerial || e.largest < kGrain ? Cost::kSerial : Cost::kWide;
  }
  ns += op.ns * flops(op, e) + 0.2f * static_cast<float>(e.elements);
  return ns <= kTinyNs ? Cost::kTiny : Cost::kWide;
}

bool check_memory(const aclOpExecutor& e, int device) {
  bool right = true;
  each_tensor(e, [&](const Arg&, const TensorCopy& t) {
    if (t.numel == 0) return;
    int64_t last = 0;
    for (int i = 0; i < t.ndim; i++) last += (t.sizes()[i] - 1) * t.strides()[i];
    right = right && check_pointer(t.data, static_cast<size_t>(last + 1) * t.item, device);
  });
  return right;
}

}  // namespace

aclOpExecutor* take(const Op& op, aclOpExecutor* handle, aclrtStream stream, aclnnStatus* status) noexcept {
  aclOpExecutor* e = nnopbase::Executors::find(handle);
  if (!e || e->op != &op || e->launched) {
    char message[200];
    std::snprintf(message, sizeof message, "%s: the executor is null, spent, destroyed, or another operator's",
                  op.name);
    *status = nnopbase::report(handle ? ACLNN_ERR_PARAM_INVALID : ACLNN_ERR_PARAM_NULLPTR, message);
    return nullptr;
  }
  if (e->repeatable) {
    e = nnopbase::copy_executor(*e);
    if (!e) {
      *status = failed(op);
      return nullptr;
    }
  }
  if (faults_asked() && (*status = fault_of_call(op.name, stream))) {
    nnopbase::release_executor(e);
    return nullptr;
  }
  e->launched = true;
  *status = rehearse(op, *e);
  static const bool checked = checked_mode();
  if (checked && !*status && !check_memory(*e, stream_device(stream))) *status = ACLNN_ERR_PARAM_INVALID;
  if (__builtin_expect(*status == 0, 1)) return e;
  nnopbase::release_executor(e);
  return nullptr;
}

Cost choose_threads(const Op& op, aclOpExecutor& e, aclrtStream stream) {
  const Cost cost = cost_of(op, e);
  e.threads = 1;
  if (cost == Cost::kWide) {
    const bool cube = op.rule == CostRule::kMatmul || op.rule == CostRule::kConvolution;
    e.threads = threads_within_limit(stream, cube, at::get_num_threads());
  }
  return cost;
}

int run_guarded(const Op& op, int threads, c10::function_ref<void()> body) noexcept {
  return guarded(op, threads, body);
}

aclnnStatus launch(const Op& op, aclOpExecutor* handle, aclrtStream stream) noexcept {
  aclnnStatus status = 0;
  aclOpExecutor* e = take(op, handle, stream, &status);
  if (!e) return status;
  const Cost cost = choose_threads(op, *e, stream);
  return enqueue(stream, Task{run_task, drop_task, e, op.name, cost});
}

}  // namespace softnpu::ops
