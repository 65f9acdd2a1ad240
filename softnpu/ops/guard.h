// Kernels do not inherit the caller: a kernel may run inline on a user's thread where autocast, vmap, dispatch modes, inference
// mode, profiling, flushed denormals or an OpenMP setting are in force. While a KernelGuard lives the thread looks like a fresh
// worker; then everything is put back. Who uses it: this room, around every call into ATen. Cost about 40 ns.
// What it cannot hide: process-wide settings (default dtype, deterministic mode, an operator's kernel replaced by
// torch.library): they are the same on every thread.
#pragma once

#include <ATen/Parallel.h>
#include <ATen/record_function.h>
#include <c10/core/AutogradState.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

#include <optional>

#include "softnpu/ops/kernel_allocator.h"
#include "softnpu/ops/processor.h"

// From the OpenMP runtime that torch itself uses: thread-local settings, unlike at::set_num_threads.
extern "C" int omp_get_max_threads();
extern "C" void omp_set_num_threads(int);

namespace softnpu::ops {

class KernelGuard {
 public:
  explicit KernelGuard(int threads)
      : keys_(c10::impl::tls_local_dispatch_key_set()),
        autograd_(c10::AutogradState::get_tls_state()),
        control_(float_control()),
        threads_(threads_of_this_thread()) {
    if (at::hasCallbacks()) record_.emplace(false);  // 500 ns: only while somebody profiles
    static const c10::impl::LocalDispatchKeySet kernel_keys = below_everything();
    c10::impl::_force_tls_local_dispatch_key_set(kernel_keys);
    c10::AutogradState::set_tls_state(c10::AutogradState(false, false, false, true));
    if ((control_ & kFlushesDenormals) != 0) set_float_control(control_ & ~kFlushesDenormals);
    if (threads_ != threads) omp_set_num_threads(threads);
    set_ = threads;
    KernelMemory::of_thread().running = true;
  }
  KernelGuard(const KernelGuard&) = delete;
  ~KernelGuard() {
    KernelMemory::of_thread().running = false;
    if (threads_ != set_) omp_set_num_threads(threads_);
    if ((control_ & kFlushesDenormals) != 0) set_float_control(control_);
    c10::AutogradState::set_tls_state(autograd_);
    c10::impl::_force_tls_local_dispatch_key_set(keys_);
  }

  // The one state that reaches kernels which never call ATen.
  static bool flushes_denormals() { return (float_control() & kFlushesDenormals) != 0; }

 private:
  // A thread's first parallel loop sets how many it has, which would undo what is set here; this library and ATen's count their
  // own firsts.
  static int threads_of_this_thread() {
    const int own = omp_get_max_threads();
    at::internal::lazy_init_num_threads();
    at::get_num_threads();
    if (omp_get_max_threads() != own) omp_set_num_threads(own);
    return own;
  }

  static c10::impl::LocalDispatchKeySet below_everything() {
    c10::impl::PODLocalDispatchKeySet pod{};
    pod.set_included(c10::DispatchKeySet(c10::DispatchKey::BackendSelect));
    pod.set_excluded(c10::autograd_dispatch_keyset_with_ADInplaceOrView | c10::autocast_dispatch_keyset);
    return c10::impl::LocalDispatchKeySet(pod);
  }

  c10::impl::LocalDispatchKeySet keys_;
  c10::AutogradState autograd_;
  std::optional<at::RecordFunctionGuard> record_;
  FloatControl control_;
  int threads_;
  int set_;
};

}  // namespace softnpu::ops
