// resize_, set_ and their kin for npu tensors. What it is not: it allocates through the hooks, it knows no allocator.
#include "csrc/ops/storage.h"

#include <ATen/Context.h>
#include <ATen/EmptyTensor.h>
#include <ATen/detail/PrivateUse1HooksInterface.h>
#include <ATen/native/Resize.h>
#include <ATen/native/ResizeCommon.h>
#include <ATen/ops/clone.h>
#include <ATen/ops/set_native.h>
#include <torch/library.h>

#include "csrc/core/NPUStorageImpl.h"
#include "csrc/core/allocator.h"
#include "csrc/core/device.h"
#include "csrc/core/empty.h"

namespace npu {

void resize_tensor(const at::Tensor& self, at::IntArrayRef sizes, at::OptionalIntArrayRef strides) {
  at::TensorImpl* impl = self.unsafeGetTensorImpl();
  if (impl->sizes() == sizes && (!strides || impl->strides() == *strides)) return;
  const NPUGuard guard(self.device().index());
  size_t bytes = 0;
  if (strides) {
    impl->set_sizes_and_strides(sizes, *strides);
    bytes = at::detail::computeStorageNbytes(sizes, *strides, impl->itemsize(), impl->storage_offset());
  } else {
    impl->generic_set_sizes_contiguous(sizes);
    bytes = at::detail::computeStorageNbytesContiguous(sizes, impl->itemsize(), impl->storage_offset());
  }
  if (impl->numel() == 0) return;
  const c10::Storage& storage = impl->unsafe_storage();
  if (bytes <= storage.nbytes()) return;
  at::detail::getPrivateUse1Hooks().resizePrivateUse1Bytes(storage, bytes);
  if (auto* const grown = dynamic_cast<torch_npu::NPUStorageImpl*>(storage.unsafeGetStorageImpl())) {
    grown->describe(impl->sizes(), impl->strides(), impl->dtype());
  }
}

void resize_out(const at::Tensor& out, at::IntArrayRef sizes) {
  if (at::native::resize_output_check(out, sizes)) resize_tensor(out, sizes);
}

namespace {

const at::Tensor& resize_(const at::Tensor& self, at::IntArrayRef size, std::optional<at::MemoryFormat> memory_format) {
  const auto former_bytes = static_cast<int64_t>(self.storage().nbytes());
  resize_tensor(self, size);
  const at::Context& context = at::globalContext();
  if (C10_UNLIKELY(context.deterministicAlgorithms() && context.deterministicFillUninitializedMemory())) {
    at::native::fill_resize_deterministic_(self, former_bytes);
  }
  if (memory_format) {
    TORCH_CHECK(*memory_format != at::MemoryFormat::Preserve, "Unsupported memory format ", *memory_format);
    self.unsafeGetTensorImpl()->empty_tensor_restride(*memory_format);
  }
  return self;
}

const at::Tensor& resize_output_(const at::Tensor& self, at::IntArrayRef size, at::Device device) {
  TORCH_CHECK(self.device() == device, "out Tensor doesn't have the correct device set: expected ", device, ", got ",
              self.device());
  if (at::native::resize_output_check(self, size)) resize_tensor(self, size);
  return self;
}

at::Tensor& set_storage_offset_(at::Tensor& self, at::Storage source, int64_t offset, at::IntArrayRef size,
                                at::IntArrayRef stride) {
  at::native::checkSetStorage(self, std::move(source), offset, size, stride);
  self.unsafeGetTensorImpl()->set_storage_offset(offset);
  resize_tensor(self, size, stride.data() ? at::OptionalIntArrayRef(stride) : std::nullopt);
  return self;
}

at::Tensor& set_storage_(at::Tensor& self, at::Storage source) {
  const int64_t size = static_cast<int64_t>(source.nbytes() / self.dtype().itemsize());
  return set_storage_offset_(self, std::move(source), 0, {size}, {});
}

at::Tensor& set_tensor_(at::Tensor& self, const at::Tensor& source) {
  if (self.is_same(source)) return self;
  return set_storage_offset_(self, source.storage(), source.storage_offset(), source.sizes(), source.strides());
}

at::Tensor& set_(at::Tensor& self) {
  auto empty = c10::make_intrusive<torch_npu::NPUStorageImpl>(
      c10::StorageImpl::use_byte_size_t(), 0, device_allocator()->allocate(0), device_allocator(), true);
  empty->describe_as_bytes();
  c10::Storage storage(std::move(empty));
  return set_storage_offset_(self, std::move(storage), 0, {0}, {});
}

// A copy that waits until it is written is a copy of the whole storage at once: kernels write what they are given, and would write the
// other tensor's memory. It is as large as the storage: where that was freed, so is the copy.
at::Tensor lazy_clone(const at::Tensor& self) {
  const NPUGuard guard(self.device().index());
  at::Tensor all = empty({0}, at::kByte);
  set_storage_(all, self.storage());
  at::Tensor copy =
      at::detail::make_tensor<c10::TensorImpl>(c10::Storage(all.clone().storage()), self.key_set(), self.dtype());
  c10::TensorImpl* const impl = copy.unsafeGetTensorImpl();
  impl->set_storage_offset(self.storage_offset());
  impl->set_sizes_and_strides(self.sizes(), self.strides());
  return copy;
}

bool is_set_to(const at::Tensor& self, const at::Tensor& source) {
  return self.storage().unsafeGetStorageImpl() == source.storage().unsafeGetStorageImpl() &&
         self.storage_offset() == source.storage_offset() && self.sizes() == source.sizes() &&
         self.strides() == source.strides();
}

// `param.data = other`: dense tensors of the CPU and of npu may take each other's place, so that an optimizer built before
// model.npu() keeps its parameters.
bool has_compatible_shallow_copy_type(const at::Tensor& self, const at::Tensor& from) {
  const auto dense = [](const at::Tensor& tensor) {
    return tensor.layout() == at::kStrided && (tensor.is_cpu() || tensor.is_privateuseone());
  };
  return (dense(self) && dense(from)) || self.unsafeGetTensorImpl()->has_compatible_shallow_copy_type(from.key_set());
}

}  // namespace

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("resize_", TORCH_FN(resize_));
  m.impl("_resize_output_", TORCH_FN(resize_output_));
  m.impl("set_.source_Storage", TORCH_FN(set_storage_));
  m.impl("set_.source_Storage_storage_offset", TORCH_FN(set_storage_offset_));
  m.impl("set_.source_Tensor", TORCH_FN(set_tensor_));
  m.impl("set_", TORCH_FN(set_));
  m.impl("_lazy_clone", TORCH_FN(lazy_clone));
  m.impl("is_set_to", TORCH_FN(is_set_to));
  m.impl("_has_compatible_shallow_copy_type", TORCH_FN(has_compatible_shallow_copy_type));
}

TORCH_LIBRARY_IMPL(aten, AutogradPrivateUse1, m) {
  m.impl("_has_compatible_shallow_copy_type", TORCH_FN(has_compatible_shallow_copy_type));
}

}  // namespace npu
