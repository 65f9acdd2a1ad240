// Views on device memory for one run, and the conversions from acl's values to ATen's.
#include "softnpu/ops/frame.h"

#include <ATen/core/TensorBase.h>
#include <ATen/ops/copy_native.h>
#include <c10/core/CPUAllocator.h>
#include <c10/core/StorageImpl.h>
#include <c10/core/TensorImpl.h>

#include <deque>

#include "softnpu/ops/hifloat8.h"

namespace softnpu::ops {

using nnopbase::Arg;
using nnopbase::Kind;
using nnopbase::ScalarCopy;
using nnopbase::TensorCopy;

namespace {

constexpr int8_t kNone = -1;
constexpr int8_t kTypes[42] = {int8_t(at::kFloat),
                               int8_t(at::kHalf),
                               int8_t(at::kChar),
                               int8_t(at::kInt),
                               int8_t(at::kByte),
                               kNone,
                               int8_t(at::kShort),
                               int8_t(at::kUInt16),
                               int8_t(at::kUInt32),
                               int8_t(at::kLong),
                               int8_t(at::kUInt64),
                               int8_t(at::kDouble),
                               int8_t(at::kBool),
                               kNone,
                               kNone,
                               kNone,
                               int8_t(at::kComplexFloat),
                               int8_t(at::kComplexDouble),
                               kNone,
                               kNone,
                               kNone,
                               kNone,
                               kNone,
                               kNone,
                               kNone,
                               kNone,
                               kNone,
                               int8_t(at::kBFloat16),
                               kNone,
                               kNone,
                               kNone,
                               kNone,
                               kNone,
                               int8_t(at::kComplexHalf),
                               int8_t(kernels::kHifloat8),
                               int8_t(at::kFloat8_e5m2),
                               int8_t(at::kFloat8_e4m3fn),
                               int8_t(at::kFloat8_e8m0fnu),
                               kNone,
                               kNone,
                               int8_t(at::ScalarType::Float4_e2m1fn_x2),
                               int8_t(at::ScalarType::Bits4x2)};  // e1m2: torch has no name for it

}  // namespace

at::ScalarType to_dtype(int64_t acl_dtype) {
  // Callers pass 32-bit enums where 64 are declared: the upper half is not theirs.
  auto type = static_cast<int32_t>(acl_dtype);
  TORCH_CHECK(type >= 0 && type < 42 && kTypes[type] != kNone, "data type ", type,
              " is not computed by the software NPU");
  return static_cast<at::ScalarType>(kTypes[type]);
}

// The calling thread's views. Frames nest (a kernel may run while another frame waits on the same thread): a stack.
class ViewPool {
 public:
  static ViewPool& here() {
    static thread_local ViewPool* pool = nullptr;
    if (!pool) {
      static thread_local ViewPool owned;
      pool = &owned;
    }
    return *pool;
  }

  size_t top() const { return top_; }
  at::Tensor& operator[](size_t i) { return views_[i]; }
  at::Tensor& push() {
    if (top_ == views_.size()) views_.emplace_back();
    return views_[top_++];
  }
  void pop_to(size_t top) noexcept {
    while (top_ > top) {
      at::Tensor& view = views_[--top_];
      if (!view.defined()) continue;
      // Kept by somebody, or changed in kind: not ours to re-point.
      bool own = view.use_count() == 1 && view.storage().use_count() == 1 && view.layout() == at::kStrided &&
                 !view.is_conj() && !view.is_neg();
      if (!own) view = at::Tensor();
    }
    if (views_.size() > kKept && top_ < kKept) views_.resize(kKept);
  }

 private:
  static constexpr size_t kKept = 2048;
  std::deque<at::Tensor> views_;  // stable addresses
  size_t top_ = 0;
};

namespace {

size_t span_bytes(const TensorCopy& c) {
  if (c.contiguous || c.numel == 0) return static_cast<size_t>(c.numel) * c.item;
  int64_t last = 0;
  for (int i = 0; i < c.ndim; i++) last += (c.sizes()[i] - 1) * c.strides()[i];
  return static_cast<size_t>(last + 1) * c.item;
}

at::Tensor new_view(at::ScalarType type) {
  auto storage = c10::make_intrusive<c10::StorageImpl>(c10::StorageImpl::use_byte_size_t(), 0,
                                                       c10::DataPtr(nullptr, at::kCPU), nullptr, /*resizable=*/false);
  return at::detail::make_tensor<c10::TensorImpl>(
      c10::Storage(std::move(storage)), c10::DispatchKeySet(c10::DispatchKey::CPU), c10::scalarTypeToTypeMeta(type));
}

}  // namespace

at::Scalar to_scalar(const ScalarCopy& s) {
  const void* v = s.value;
  switch (s.dtype) {
    case ACL_FLOAT:
      return *static_cast<const float*>(v);
    case ACL_FLOAT16:
      return static_cast<float>(*static_cast<const at::Half*>(v));
    case ACL_BF16:
      return static_cast<float>(*static_cast<const at::BFloat16*>(v));
    case ACL_DOUBLE:
      return *static_cast<const double*>(v);
    case ACL_INT8:
      return static_cast<int64_t>(*static_cast<const int8_t*>(v));
    case ACL_UINT8:
      return static_cast<int64_t>(*static_cast<const uint8_t*>(v));
    case ACL_INT16:
      return static_cast<int64_t>(*static_cast<const int16_t*>(v));
    case ACL_UINT16:
      return static_cast<int64_t>(*static_cast<const uint16_t*>(v));
    case ACL_INT32:
      return static_cast<int64_t>(*static_cast<const int32_t*>(v));
    case ACL_UINT32:
      return static_cast<int64_t>(*static_cast<const uint32_t*>(v));
    case ACL_INT64:
      return *static_cast<const int64_t*>(v);
    case ACL_UINT64:
      return *static_cast<const uint64_t*>(v);
    case ACL_BOOL:
      return *static_cast<const bool*>(v);
    case ACL_COMPLEX64:
      return *static_cast<const c10::complex<float>*>(v);
    case ACL_COMPLEX128:
      return *static_cast<const c10::complex<double>*>(v);
    default:
      TORCH_CHECK(false, "a scalar of data type ", s.dtype, " is not computed by the software NPU");
  }
}

Frame::Frame(const aclOpExecutor& executor) : executor_(executor), pool_(ViewPool::here()), first_(pool_.top()) {}

Frame::~Frame() { pool_.pop_to(first_); }

at::Tensor& Frame::view(const TensorCopy& c, bool out) {
  auto type = static_cast<at::ScalarType>(kTypes[c.dtype]);
  at::Tensor& view = pool_.push();
  used_.push_back({&c, out});
  if (!view.defined()) view = new_view(type);
  c10::TensorImpl* impl = view.unsafeGetTensorImpl();
  c10::StorageImpl* storage = impl->unsafe_storage().unsafeGetStorageImpl();
  storage->set_data_ptr_noswap(c10::DataPtr(c.data, at::kCPU));
  storage->set_nbytes(span_bytes(c));
  if (impl->dtype() != c10::scalarTypeToTypeMeta(type))
    impl->set_storage_and_dtype(impl->storage(), c10::scalarTypeToTypeMeta(type));
  at::IntArrayRef sizes(c.sizes(), c.ndim), strides(c.strides(), c.ndim);
  if (impl->sizes() != sizes || impl->strides() != strides || impl->storage_offset() != 0) {
    impl->set_sizes_and_strides(sizes, strides, 0);
  }
  if (impl->is_wrapped_number()) impl->set_wrapped_number(false);
  return view;
}

at::Tensor& Frame::out(int i) {
  const Arg& a = arg(i);
  if (a.kind == Kind::kTensor && a.tensor) return view(*a.tensor, a.out);
  at::Tensor& none = pool_.push();
  used_.push_back({nullptr, false});
  none = at::Tensor();
  return none;
}

std::optional<at::Tensor> Frame::optional(int i) {
  const Arg& a = arg(i);
  if (a.kind != Kind::kTensor || !a.tensor) return std::nullopt;
  return view(*a.tensor, a.out);
}

bool Frame::is_null(int i) const {
  const Arg& a = arg(i);
  return a.kind == Kind::kNull || (a.kind == Kind::kTensor && !a.tensor);
}

at::Scalar Frame::scalar(int i) const { return to_scalar(*arg(i).scalar); }

std::optional<at::Scalar> Frame::optional_scalar(int i) const {
  if (is_null(i)) return std::nullopt;
  return to_scalar(*arg(i).scalar);
}

std::vector<at::Scalar> Frame::scalars(int i) const {
  std::vector<at::Scalar> values;
  const Arg& a = arg(i);
  values.reserve(a.count);
  for (uint32_t k = 0; k < a.count; k++) values.push_back(to_scalar(a.scalars[k]));
  return values;
}

c10::SmallVector<at::Tensor, 8> Frame::tensors(int i) {
  c10::SmallVector<at::Tensor, 8> list;
  const Arg& a = arg(i);
  list.reserve(a.count);
  for (uint32_t k = 0; k < a.count; k++) list.push_back(a.tensors[k] ? view(*a.tensors[k], a.out) : at::Tensor());
  return list;
}

void Frame::put_dynamic(at::Tensor& out, const at::Tensor& result) {
  for (size_t k = 0; k < used_.size(); k++) {
    if (&pool_[first_ + k] != &out) continue;
    const TensorCopy& c = *used_[k].copy;
    TORCH_CHECK(result.numel() <= c.numel, "the result has ", result.sizes(), " elements, the output only ", c.numel);
    out.unsafeGetTensorImpl()->set_sizes_contiguous(result.sizes());
    at::native::copy_(out, result, false);
    nnopbase::set_view_shape(c.handle, result.sizes().data(), static_cast<int>(result.dim()));
    used_[k].out = false;
    return;
  }
  TORCH_INTERNAL_ASSERT(false, "put_dynamic: not an output of this operator");
}

void Frame::check_outputs() const {
  for (size_t k = 0; k < used_.size(); k++) {
    if (!used_[k].out) continue;
    const at::Tensor& view = pool_[first_ + k];
    at::IntArrayRef made(used_[k].copy->sizes(), used_[k].copy->ndim);
    TORCH_CHECK(view.sizes() == made, "an output has shape ", made, ", its result ", view.sizes());
  }
}

}  // namespace softnpu::ops
