// CANN's formats. Memory stays ND whatever is asked for: the format and the sizes it would be padded to are written down in the description of
// the storage and reported, so that programs that ask for FRACTAL_NZ weights run unchanged. All views of a storage have its format.
#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>
#include <c10/util/accumulate.h>

#include "csrc/core/NPUStorageImpl.h"
#include "csrc/ops/npu/compose.h"
#include "csrc/ops/npu/format_sizes.h"
#include "csrc/ops/npu/sizes.h"
#include "npu_ops.h"

namespace npu::ops {
namespace {

using torch_npu::NPUStorageDesc;
using torch_npu::NPUStorageImpl;

// Null for memory that another library made a tensor of, and for tensors without memory.
NPUStorageDesc* description_of(const at::Tensor& tensor) {
  if (!tensor.has_storage()) return nullptr;
  auto* const storage = dynamic_cast<NPUStorageImpl*>(tensor.storage().unsafeGetStorageImpl());
  return storage ? &storage->npu_desc_ : nullptr;
}

void tag(const at::Tensor& tensor, int64_t format) {
  NPUStorageDesc* const description = description_of(tensor);
  TORCH_CHECK_VALUE(description,
                    "npu_format_cast: another library made this tensor's memory, which has no format; "
                    "clone the tensor first");
  const aclFormat checked = checked_format(format, tensor.sym_sizes());
  const std::vector<int64_t> padded = padded_sizes(checked, tensor.sizes(), tensor.itemsize());
  description->npu_format_ = checked;
  description->data_type_ = tensor.dtype();  // of which storage_sizes_ counts; a loaded storage is one of bytes
  description->storage_sizes_.assign(padded.begin(), padded.end());
}

at::Tensor cast(const at::Tensor& input, int64_t format, std::optional<int64_t> dtype) {
  TORCH_CHECK_NOT_IMPLEMENTED(!dtype, "npu_format_cast: customize_dtype is not implemented");
  at::Tensor out = input.clone(at::MemoryFormat::Contiguous);
  tag(out, format);
  return out;
}

// It names a type that torch has no dtype for (float4, hifloat8), whose bytes the tensor holds.
void refuse_input_dtype(std::optional<int64_t> input_dtype) {
  TORCH_CHECK_NOT_IMPLEMENTED(!input_dtype, "npu_format_cast: input_dtype is not implemented");
}

}  // namespace

int64_t format_of(const at::Tensor& tensor) {
  const NPUStorageDesc* const description = description_of(tensor);
  return description ? description->npu_format_ : ACL_FORMAT_ND;
}

void check_format(const at::Tensor& input, int64_t format) { checked_format(format, input.sym_sizes()); }

void check_cast_types(const char* op, std::optional<int64_t> customize, std::optional<int64_t> input) {
  refuse_input_dtype(input);
  TORCH_CHECK_NOT_IMPLEMENTED(!customize, op, ": customize_dtype is not implemented");
}

// What copy_ asks where it copies, and not for "meta"; before the format changes.
void check_copied(const at::Tensor& input, const at::Tensor& src) {
  constexpr const char* kOp = "npu_format_cast_";
  TORCH_CHECK(src.dim() <= input.dim(), kOp, ": src, which is copied into input, has ", src.dim(),
              " dimensions, more than the ", input.dim(), " of input");
  need_broadcast(kOp, "src", src, sizes_of(input));
}

int64_t storage_elements(const at::Tensor& tensor) {
  const NPUStorageDesc* const description = description_of(tensor);
  if (!description) {
    return tensor.storage().sym_nbytes().guard_int(__FILE__, __LINE__) / static_cast<int64_t>(tensor.itemsize());
  }
  const int64_t bytes =
      c10::multiply_integers(description->storage_sizes_) * static_cast<int64_t>(description->data_type_.itemsize());
  return bytes / static_cast<int64_t>(tensor.itemsize());
}

int64_t moved_onto(const at::Tensor& dst, const at::Tensor& src, int64_t index) {
  const char* const op = "npu_change_data_ptr";
  need_same_type(op, "dst", dst, "src", src);
  TORCH_CHECK_VALUE(dst.is_privateuseone() && dst.device() == src.device(), op, ": dst is on ", dst.device(),
                    " and src on ", src.device(), "; both have to be on one npu");
  const c10::Storage &to = dst.storage(), &from = src.storage();
  TORCH_CHECK_VALUE(!to.is_alias_of(from), op, ": dst and src have the same memory");
  const auto width = static_cast<int64_t>(dst.itemsize());
  const int64_t wanted = static_cast<int64_t>(to.nbytes()) / width, there = static_cast<int64_t>(from.nbytes()) / width;
  TORCH_CHECK_VALUE(index >= 0 && index <= there && wanted <= there - index, op, ": dst's ", wanted,
                    " elements do not fit from index ", index, " on into src's memory of ", there);
  auto* const kept = new c10::Storage(from);          // as long as dst's storage points into it
  from.unsafeGetStorageImpl()->set_resizable(false);  // which would free the memory that dst has now
  void* const data = static_cast<char*>(from.mutable_data()) + index * width;
  to.set_data_ptr_noswap(
      at::DataPtr(data, kept, [](void* storage) { delete static_cast<c10::Storage*>(storage); }, to.device()));
  dst.unsafeGetTensorImpl()->bump_version();
  return 0;
}

void check_no_alignment(std::optional<int64_t> base_addr_aligned_kb) {
  TORCH_CHECK_NOT_IMPLEMENTED(!base_addr_aligned_kb,
                              "empty_with_format: base_addr_aligned_kb is not implemented; memory "
                              "of the npu is aligned to 512 bytes");
}

at::Tensor made_with_format(at::IntArrayRef sizes, std::optional<at::ScalarType> dtype,
                            std::optional<at::Layout> layout, std::optional<at::Device> device,
                            std::optional<bool> pin_memory, int64_t format) {
  const at::Device where = device.value_or(at::Device(at::kPrivateUse1));
  TORCH_CHECK_VALUE(where.is_privateuseone(), "empty_with_format: device must be an npu, it is ", where,
                    "; a tensor of ", where, " has no format; make it on npu, or by torch.empty");
  checked_format(format, c10::fromIntArrayRefSlow(sizes));
  at::Tensor made = at::empty(sizes, dtype, layout, where, pin_memory, at::MemoryFormat::Contiguous);
  if (format != ACL_FORMAT_ND) npu_format_cast__acl_format(made, format, std::nullopt, std::nullopt);
  return made;
}

namespace kernels {

at::Tensor format_cast(const at::Tensor& input, int64_t acl_format, std::optional<int64_t> customize_dtype,
                       std::optional<int64_t> input_dtype) {
  refuse_input_dtype(input_dtype);
  return cast(input, acl_format, customize_dtype);
}
at::Tensor format_cast_like(const at::Tensor& input, const at::Tensor& dst, std::optional<int64_t> customize_dtype,
                            std::optional<int64_t> input_dtype) {
  refuse_input_dtype(input_dtype);
  return cast(input, format_of(dst), customize_dtype);
}
at::Tensor format_cast_plain(const at::Tensor& input, int64_t acl_format) {
  return cast(input, acl_format, std::nullopt);
}

at::Tensor& format_cast_(at::Tensor& input, int64_t acl_format, std::optional<int64_t> customize_dtype,
                         std::optional<int64_t> input_dtype) {
  refuse_input_dtype(input_dtype);
  TORCH_CHECK_NOT_IMPLEMENTED(!customize_dtype, "npu_format_cast_: customize_dtype is not implemented");
  tag(input, acl_format);
  return input;
}
at::Tensor& format_cast_like_(at::Tensor& input, const at::Tensor& src, std::optional<int64_t> customize_dtype,
                              std::optional<int64_t> input_dtype) {
  return format_cast_(input, format_of(src), customize_dtype, input_dtype).copy_(src);
}

}  // namespace kernels
}  // namespace npu::ops
