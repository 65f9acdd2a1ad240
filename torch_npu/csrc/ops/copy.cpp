// copy_ between host and npu and between npu devices, and .item(): the only place that moves tensors across the host's border.
// What it is not: dtype and stride conversion on the device, which is aclnnInplaceCopy's. Bytes cross the border only between
// dense tensors of equal dtype and strides; whatever else is asked for is converted on one side first.
#include "csrc/ops/copy.h"

#include <ATen/Dispatch_v2.h>
#include <ATen/MemoryOverlap.h>
#include <ATen/core/CachingHostAllocator.h>
#include <ATen/ops/_local_scalar_dense.h>
#include <ATen/ops/empty_strided.h>
#include <c10/core/Event.h>
#include <torch/library.h>

#include "csrc/cann/api.h"
#include "csrc/cann/error.h"
#include "csrc/core/device.h"
#include "csrc/core/empty.h"
#include "csrc/core/options.h"
#include "csrc/core/recovery.h"
#include "csrc/core/stream.h"
#include "csrc/core/sync_debug.h"
#include "csrc/core/type_name.h"
#include "csrc/ops/aclnn_call.h"
#include "csrc/ops/storage.h"

namespace npu {

namespace {

bool on_npu(const at::Tensor& tensor) { return tensor.is_privateuseone(); }

// Same bytes in the same order: a plain memory copy does it.
bool same_bytes(const at::Tensor& a, const at::Tensor& b) {
  return a.scalar_type() == b.scalar_type() && a.sizes() == b.sizes() && a.is_non_overlapping_and_dense() &&
         (a.strides() == b.strides() || (a.is_contiguous() && b.is_contiguous()));
}

void copy_bytes(const at::Tensor& dst, const at::Tensor& src, aclrtMemcpyKind kind) {
  const size_t bytes = src.nbytes();
  if (bytes == 0) return;
  NPU_CHECK(cann::acl().aclrtMemcpyAsync(dst.mutable_data_ptr(), bytes, src.const_data_ptr(), bytes, kind,
                                         current_raw_stream()));
}

void synchronize() {
  about_to_wait();
  wait_for(current_raw_stream());
}

// CANN may wait for the stream inside a copy from or to memory that is not pinned, and for ever: under a limit that wait comes before.
bool waits_before_copy() { return C10_UNLIKELY(options().stream_sync_timeout > 0) && !is_capturing(current_stream()); }

// What waits for a stream takes the stream's error with it, also one that is known before anything is queued.
template <class Copy>
auto taking_error(const at::Tensor& on_device, Copy&& copy) {
  const NPUGuard guard(on_device.device().index());
  try {
    return copy();
  } catch (const c10::AcceleratorError& error) {
    // After a limit the stream has no error to take, and the wait would be as long again.
    const bool overdue = error.get_error_code() == ACL_ERROR_RT_STREAM_SYNC_TIMEOUT;
    if (!overdue) cann::acl().aclrtSynchronizeStream(current_raw_stream());
    throw;
  }
}

// Keeps a pinned block from reuse until the current stream has passed this point; false if `host` is not pinned by us.
bool keep_until_done(const at::Tensor& host) {
  const at::DataPtr& data = host.storage().data_ptr();
  return at::getHostAllocator(c10::DeviceType::PrivateUse1)
      ->record_event(host.storage().mutable_data(), data.get_context(), current_stream());
}

void cross_border(const at::Tensor& dst, const at::Tensor& src, aclrtMemcpyKind kind, bool non_blocking) {
  const at::Tensor& host = kind == ACL_MEMCPY_HOST_TO_DEVICE ? src : dst;
  if (waits_before_copy() && (!non_blocking || !host.is_pinned())) wait_for(current_raw_stream());
  copy_bytes(dst, src, kind);
  if (non_blocking && keep_until_done(host)) return;
  synchronize();
}

void host_to_device(const at::Tensor& dst, const at::Tensor& src, bool non_blocking) {
  const NPUGuard guard(dst.device().index());
  if (same_bytes(dst, src)) return cross_border(dst, src, ACL_MEMCPY_HOST_TO_DEVICE, non_blocking);
  if (non_blocking && src.is_non_overlapping_and_dense()) {  // keep it asynchronous: convert on the device
    const at::Tensor staged = empty_strided(src.sizes(), src.strides(), src.scalar_type());
    cross_border(staged, src, ACL_MEMCPY_HOST_TO_DEVICE, true);
    ACLNN(aclnnInplaceCopy)(dst, staged);
    return;
  }
  // A broadcast source is expanded on the device, not on the border.
  const at::Tensor converted = src.to(dst.scalar_type()).contiguous();
  if (converted.sizes() == dst.sizes() && dst.is_contiguous())
    return cross_border(dst, converted, ACL_MEMCPY_HOST_TO_DEVICE, false);
  const at::Tensor staged = empty(converted.sizes(), dst.scalar_type());
  cross_border(staged, converted, ACL_MEMCPY_HOST_TO_DEVICE, false);
  ACLNN(aclnnInplaceCopy)(dst, staged);
}

void device_to_host(const at::Tensor& dst, const at::Tensor& src, bool non_blocking) {
  const NPUGuard guard(src.device().index());
  if (same_bytes(dst, src)) return cross_border(dst, src, ACL_MEMCPY_DEVICE_TO_HOST, non_blocking);
  if (dst.is_non_overlapping_and_dense() && src.sizes() == dst.sizes()) {
    const at::Tensor converted = empty_strided(dst.sizes(), dst.strides(), dst.scalar_type());
    ACLNN(aclnnInplaceCopy)(converted, src);
    return cross_border(dst, converted, ACL_MEMCPY_DEVICE_TO_HOST, non_blocking);
  }
  at::Tensor dense = src;
  if (!src.is_contiguous()) {
    dense = empty(src.sizes(), src.scalar_type());
    ACLNN(aclnnInplaceCopy)(dense, src);
  }
  const at::Tensor host = at::empty_strided(dense.sizes(), dense.strides(), dense.options().device(at::kCPU));
  cross_border(host, dense, ACL_MEMCPY_DEVICE_TO_HOST, false);
  dst.copy_(host);
}

void within_device(const at::Tensor& dst, const at::Tensor& src) {
  const NPUGuard guard(dst.device().index());
  if (same_bytes(dst, src)) return copy_bytes(dst, src, ACL_MEMCPY_DEVICE_TO_DEVICE);
  const auto codes = [](const at::Tensor& t) { return t.scalar_type() == at::ScalarType::Bits8; };
  TORCH_CHECK_NOT_IMPLEMENTED(codes(dst) == codes(src), "copy_: ", type_name(src), " does not become ", type_name(dst),
                              "; codes of hifloat8 are uint8, which torch_npu.npu_dtype_cast makes and reads");
  if (codes(dst)) return void(ACLNN(aclnnCast)(src, dst.scalar_type(), dst));  // CANN's copy does not list them
  ACLNN(aclnnInplaceCopy)(dst, src);
}

// The copy runs on the source's current stream; both devices' streams are ordered around it by events, as on CUDA.
void between_devices(const at::Tensor& dst, const at::Tensor& src) {
  const NPUGuard guard(src.device().index());
  const c10::Stream source_stream = current_stream(src.device().index());
  const c10::Stream target_stream = current_stream(dst.device().index());
  at::Tensor dense = src;
  if (!src.is_contiguous() || src.scalar_type() != dst.scalar_type()) {
    dense = empty(src.sizes(), dst.scalar_type());
    ACLNN(aclnnInplaceCopy)(dense, src);
  }
  at::Tensor target = dst;
  if (!dst.is_contiguous() || dense.sizes() != dst.sizes()) {
    const NPUGuard there(dst.device().index());
    target = empty(dense.sizes(), dst.scalar_type());
  }
  c10::Event target_ready(c10::DeviceType::PrivateUse1);
  target_ready.record(target_stream);
  target_ready.block(source_stream);
  copy_bytes(target, dense, ACL_MEMCPY_DEVICE_TO_DEVICE);
  c10::Event copied(c10::DeviceType::PrivateUse1);
  copied.record(source_stream);
  copied.block(target_stream);
  if (!target.is_same(dst)) {
    const NPUGuard there(dst.device().index());
    ACLNN(aclnnInplaceCopy)(dst, target);
  }
}

// Writing all of a memory makes it safe.
void heed_unsafe(const at::Tensor& dst, const at::Tensor& src) {
  if (on_npu(src)) refuse_unsafe(src);
  if (!on_npu(dst)) return;
  const at::DataPtr& data = dst.storage().data_ptr();
  dst.is_non_overlapping_and_dense() && dst.nbytes() == dst.storage().nbytes() ? set_safe(data) : refuse_unsafe(dst);
}

}  // namespace

at::Tensor raw(const at::Tensor& tensor) {
  at::Tensor result = tensor;
  if (result.is_conj()) result = result._conj();
  if (result.is_neg()) result = result._neg_view();
  return result;
}

void copy(const at::Tensor& dst, const at::Tensor& src, bool non_blocking) {
  if (dst.numel() == 0 || dst.is_same(src)) return;
  refuse_stopped(on_npu(src) ? src.device().index() : dst.device().index());
  if (C10_UNLIKELY(refuses_unsafe())) heed_unsafe(dst, src);
  if (on_npu(dst) && on_npu(src)) {
    dst.device() == src.device() ? within_device(dst, src) : between_devices(dst, src);
  } else if (on_npu(dst)) {
    if (non_blocking) return host_to_device(dst, src, true);
    taking_error(dst, [&] { host_to_device(dst, src, false); });
  } else {
    if (non_blocking) return device_to_host(dst, src, true);
    taking_error(src, [&] { device_to_host(dst, src, false); });
  }
}

namespace {

bool same_view(const at::Tensor& a, const at::Tensor& b) {
  return a.is_same(b) || (a.is_alias_of(b) && a.storage_offset() == b.storage_offset() && a.sizes() == b.sizes() &&
                          a.strides() == b.strides() && a.scalar_type() == b.scalar_type() &&
                          a.is_conj() == b.is_conj() && a.is_neg() == b.is_neg());
}

at::Tensor& copy_(at::Tensor& self, const at::Tensor& src, bool non_blocking) {
  TORCH_CHECK(self.defined() && src.defined(), "copy_: undefined tensor");
  if (same_view(self, src)) return self;  // before overlaps are looked for, as PyTorch's
  TORCH_CHECK(src.device().type() == c10::DeviceType::PrivateUse1 || src.is_cpu(), "npu: cannot copy from a tensor on ",
              src.device());
  TORCH_CHECK(self.device().type() == c10::DeviceType::PrivateUse1 || self.is_cpu(), "npu: cannot copy to a tensor on ",
              self.device());
  if (C10_UNLIKELY(!self.is_non_overlapping_and_dense())) at::assert_no_internal_overlap(self);
  if (C10_UNLIKELY(self.is_alias_of(src))) at::assert_no_partial_overlap(self, src);
  const at::Tensor source = src.sizes() == self.sizes() ? src : src.expand(self.sizes());
  TORCH_CHECK(!self._is_zerotensor(),
              "ZeroTensors are immutable. Please materialize the tensor using `.clone()`, if you ",
              "want a mutable zero tensor.");
  if (C10_UNLIKELY(src._is_zerotensor())) return self.zero_();  // it has no memory to copy
  if (!self.is_conj() && !src.is_conj() && !self.is_neg() && !src.is_neg()) {
    copy(self, source, non_blocking);
    return self;
  }
  at::Tensor target = raw(self);
  copy(target, raw(source), non_blocking && self.is_conj() == src.is_conj() && self.is_neg() == src.is_neg());
  if (self.is_conj() != src.is_conj()) target.conj_physical_();
  if (self.is_neg() != src.is_neg()) target.neg_();
  return self;
}

at::Tensor copy_from(const at::Tensor& self, const at::Tensor& dst, bool non_blocking) {
  at::Tensor target = dst;
  copy_(target, self, non_blocking);
  return dst;
}

// Resizes only what has another size: a tensor of equal size keeps its strides.
at::Tensor copy_from_and_resize(const at::Tensor& self, const at::Tensor& dst) {
  if (dst.sizes() != self.sizes()) {
    TORCH_CHECK(on_npu(dst) || on_npu(self), "_copy_from_and_resize: neither tensor is on npu");
    on_npu(dst) ? resize_tensor(dst, self.sizes()) : static_cast<void>(dst.resize_(self.sizes()));
  }
  return copy_from(self, dst, false);
}

at::Scalar local_scalar_dense(const at::Tensor& self) {
  alignas(16) char value[16];
  const size_t bytes = self.itemsize();
  TORCH_CHECK(bytes <= sizeof value, "npu: .item() of type ", self.scalar_type(), " is not supported");
  refuse_stopped(self.device().index());
  refuse_unsafe(self);
  taking_error(self, [&] {
    if (waits_before_copy()) wait_for(current_raw_stream());
    NPU_CHECK(cann::acl().aclrtMemcpyAsync(value, bytes, self.const_data_ptr(), bytes, ACL_MEMCPY_DEVICE_TO_HOST,
                                           current_raw_stream()));
    synchronize();
  });
  at::Scalar result;
  AT_DISPATCH_V2(self.scalar_type(), "_local_scalar_dense_npu", AT_WRAP([&] {
                   scalar_t number;
                   memcpy(&number, value, sizeof number);
                   result = at::Scalar(number);
                 }),
                 AT_EXPAND(AT_ALL_TYPES_AND_COMPLEX), AT_EXPAND(AT_BAREBONES_UNSIGNED_TYPES),
                 AT_EXPAND(AT_FLOAT8_TYPES), at::kBool, at::kHalf, at::kBFloat16, at::kComplexHalf);
  return result;
}

}  // namespace

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("copy_", TORCH_FN(copy_));
  m.impl("_copy_from", TORCH_FN(copy_from));
  m.impl("_copy_from_and_resize", TORCH_FN(copy_from_and_resize));
  m.impl("_local_scalar_dense", TORCH_FN(local_scalar_dense));
}

}  // namespace npu
