// The untyped half of aclnn_call.h: handles from ATen values, symbols by name, errors.
// What it is not: it knows no operator.
#include "csrc/ops/aclnn_call.h"

#include <ATen/Context.h>

#include <array>
#include <atomic>
#include <bit>
#include <cstdlib>

#include "csrc/cann/aclnn.h"
#include "csrc/cann/api.h"
#include "csrc/cann/error.h"
#include "csrc/core/allocator.h"
#include "csrc/core/device.h"
#include "csrc/core/empty.h"
#include "csrc/core/launch.h"
#include "csrc/core/recovery.h"
#include "csrc/core/stream.h"
#include "csrc/core/type_name.h"

namespace npu {

namespace {

constexpr int known_dtype(at::ScalarType type) {
  switch (type) {
    case at::kFloat:
      return ACL_FLOAT;
    case at::kHalf:
      return ACL_FLOAT16;
    case at::kBFloat16:
      return ACL_BF16;
    case at::kDouble:
      return ACL_DOUBLE;
    case at::kLong:
      return ACL_INT64;
    case at::kInt:
      return ACL_INT32;
    case at::kShort:
      return ACL_INT16;
    case at::kChar:
      return ACL_INT8;
    case at::kByte:
      return ACL_UINT8;
    case at::kBool:
      return ACL_BOOL;
    case at::kUInt16:
      return ACL_UINT16;
    case at::kUInt32:
      return ACL_UINT32;
    case at::kUInt64:
      return ACL_UINT64;
    case at::kComplexHalf:
      return ACL_COMPLEX32;
    case at::kComplexFloat:
      return ACL_COMPLEX64;
    case at::kComplexDouble:
      return ACL_COMPLEX128;
    case at::kFloat8_e5m2:
      return ACL_FLOAT8_E5M2;
    case at::kFloat8_e4m3fn:
      return ACL_FLOAT8_E4M3FN;
    case at::kFloat8_e8m0fnu:
      return ACL_FLOAT8_E8M0;
    case at::ScalarType::Bits8:  // PyTorch has no hifloat8: csrc/ops/npu/hifloat8.h
      return ACL_HIFLOAT8;
    case at::kQInt8:
      return ACL_INT8;
    case at::kQUInt8:
      return ACL_UINT8;
    case at::kQInt32:
      return ACL_INT32;
    default:
      return -1;
  }
}

// Looked up: a switch is several jumps for each tensor of each operator.
constexpr auto kDtypes = [] {
  std::array<int16_t, c10::NumScalarTypes> known{};
  for (size_t i = 0; i < known.size(); i++)
    known[i] = static_cast<int16_t>(known_dtype(static_cast<at::ScalarType>(i)));
  return known;
}();

[[noreturn]] C10_NOINLINE void refuse_type(at::ScalarType type) {
  TORCH_CHECK_TYPE(false, "npu: tensors of type ", type_name(type), " are not supported on an npu device");
}

}  // namespace

aclDataType acl_dtype(at::ScalarType type) {
  const auto place = static_cast<size_t>(type);
  if (C10_UNLIKELY(place >= kDtypes.size() || kDtypes[place] < 0)) refuse_type(type);
  return static_cast<aclDataType>(kDtypes[place]);
}

namespace {

template <class Value>
aclScalar* scalar_of(Value value, aclDataType type) {
  return cann::acl().aclCreateScalar(&value, type);
}

// Fill rather than copy: a fill kernel takes the value by its scalar, no host memory has to stay alive.
at::Tensor scalar_on_device(const at::Tensor& cpu) {
  at::Tensor tensor = empty({}, cpu.scalar_type());
  ACLNN(aclnnInplaceFillScalar)(tensor, cpu.item());
  return tensor;
}

// The tensor that CANN gets for one it cannot take as it is: on another device, or a lazy conjugation or negation. Most
// operators never see the latter; PyTorch lets products have it (`a.mH @ b`). Apart, as what follows: the usual way is short.
C10_NOINLINE const at::Tensor& prepared(const at::Tensor& tensor, bool here, at::Tensor& keep) {
  TORCH_CHECK(here || (tensor.device().is_cpu() && tensor.dim() == 0),
              "Expected all tensors to be on the same device, but found at least two devices, npu:",
              static_cast<int>(current_device()), " and ", tensor.device(), "!");
  keep = here ? tensor.resolve_conj().resolve_neg() : scalar_on_device(tensor);
  return keep;
}

[[noreturn]] C10_NOINLINE void refuse_layout(const at::Tensor& tensor) {
  TORCH_CHECK(false, "npu: a ", tensor.layout(), " tensor cannot be given to an npu operator");
}

[[noreturn]] C10_NOINLINE void report_no_tensor(at::IntArrayRef sizes) {
  TORCH_CHECK(false, "npu: aclCreateTensor failed for a tensor of shape ", sizes, ": ", cann::recent_message());
}

// The handle, which CANN made. A null one would tell an operator that the caller passed nothing.
template <class Handle>
Handle* made(Handle* handle, const char* function) {
  TORCH_CHECK(handle, "npu: ", function, " failed: ", cann::recent_message());
  return handle;
}

aclFormat format_of(int64_t dim) {
  switch (dim) {
    case 3:
      return ACL_FORMAT_NCL;
    case 4:
      return ACL_FORMAT_NCHW;
    case 5:
      return ACL_FORMAT_NCDHW;
    default:
      return ACL_FORMAT_ND;
  }
}

// Handles made so far, until a list owns them.
template <class Handle>
struct Pending {
  ~Pending() {
    for (const Handle* handle : handles) {
      if (handle) detail::destroy(handle);
    }
  }
  c10::SmallVector<const Handle*, 16> handles;
};

}  // namespace

namespace detail {
namespace {

// Two elements of 4 bits in a byte: CANN counts elements, PyTorch bytes. They lie along the dimension of stride 1.
C10_NOINLINE aclTensor* make_pairs(const at::Tensor& tensor) {
  c10::DimVector sizes(tensor.sizes()), strides(tensor.strides());
  int64_t dim = tensor.dim() - 1;
  for (int64_t i = dim; i >= 0 && strides[static_cast<size_t>(dim)] != 1; i--) {
    if (strides[static_cast<size_t>(i)] == 1) dim = i;
  }
  for (int64_t i = 0; i < tensor.dim(); i++) {
    if (i == dim) {
      sizes[static_cast<size_t>(i)] *= 2;
    } else {
      strides[static_cast<size_t>(i)] *= 2;
    }
  }
  const int64_t storage_size = 2 * static_cast<int64_t>(tensor.storage().nbytes());
  const aclDataType type = tensor.scalar_type() == at::ScalarType::Bits4x2 ? ACL_FLOAT4_E1M2 : ACL_FLOAT4_E2M1;
  aclTensor* handle = cann::acl().aclCreateTensor(sizes.data(), sizes.size(), type, strides.data(),
                                                  2 * tensor.storage_offset(), format_of(tensor.dim()), &storage_size,
                                                  1, const_cast<void*>(tensor.storage().data()));
  if (!handle) report_no_tensor(sizes);
  return handle;
}

bool of_pairs(const at::Tensor& t) {
  return t.scalar_type() == at::ScalarType::Float4_e2m1fn_x2 || t.scalar_type() == at::ScalarType::Bits4x2;
}

}  // namespace

// CANN has no lazy conjugation or negation.
constexpr c10::DispatchKeySet kLazy({c10::DispatchKey::Conjugate, c10::DispatchKey::Negative});

// Flat: it runs for each tensor of each operator, and PyTorch's short functions are calls otherwise.
__attribute__((flatten)) aclTensor* make_tensor(const at::Tensor& given, at::Tensor& keep) {
  const c10::Device device = given.device();
  const bool here = device.type() == c10::DeviceType::PrivateUse1 && device.index() == current_device();
  const bool plain = here && !given.unsafeGetTensorImpl()->key_set().has_any(kLazy);
  const at::Tensor& tensor = C10_LIKELY(plain) ? given : prepared(given, here, keep);
  if (C10_UNLIKELY(tensor.layout() != at::kStrided)) refuse_layout(tensor);
  refuse_unsafe(tensor);
  if (C10_UNLIKELY(of_pairs(tensor))) return make_pairs(tensor);
  const at::IntArrayRef sizes = tensor.sizes();
  const c10::Storage& storage = tensor.storage();
  const int64_t storage_size = static_cast<int64_t>(storage.nbytes() >> std::countr_zero(tensor.itemsize()));
  aclTensor* handle = cann::acl().aclCreateTensor(
      sizes.data(), sizes.size(), acl_dtype(tensor.scalar_type()), tensor.strides().data(), tensor.storage_offset(),
      format_of(tensor.dim()), &storage_size, 1, const_cast<void*>(storage.data()));
  if (C10_UNLIKELY(!handle)) report_no_tensor(sizes);
  return handle;
}

aclScalar* make_scalar(const at::Scalar& scalar) {
  aclScalar* handle = nullptr;
  switch (scalar.type()) {
    case at::kDouble:
      handle = scalar_of(scalar.toDouble(), ACL_DOUBLE);
      break;
    case at::kLong:
      handle = scalar_of(scalar.toLong(), ACL_INT64);
      break;
    case at::kUInt64:
      handle = scalar_of(scalar.toUInt64(), ACL_UINT64);
      break;
    case at::kBool:
      handle = scalar_of(scalar.toBool(), ACL_BOOL);
      break;
    case at::kComplexDouble:
      handle = scalar_of(scalar.toComplexDouble(), ACL_COMPLEX128);
      break;
    default:
      TORCH_CHECK_TYPE(false, "npu: a scalar of type ", type_name(scalar.type()), " is not supported");
  }
  return made(handle, "aclCreateScalar");
}

aclScalar* kept_scalar(const at::Scalar& scalar) {
  if (scalar.type() != at::kLong || scalar.toLong() != 1) return nullptr;
  static aclScalar* const one = make_scalar(1);  // where that throws, the next call tries again
  return one;
}

aclIntArray* make_ints(at::IntArrayRef values) {
  return made(cann::acl().aclCreateIntArray(values.data(), values.size()), "aclCreateIntArray");
}

aclFloatArray* make_floats(at::ArrayRef<double> values) {
  const std::vector<float> narrow(values.begin(), values.end());
  return made(cann::acl().aclCreateFloatArray(narrow.data(), narrow.size()), "aclCreateFloatArray");
}

aclBoolArray* make_bools(const bool* values, size_t size) {
  return made(cann::acl().aclCreateBoolArray(values, size), "aclCreateBoolArray");
}

aclTensorList* make_list(at::ArrayRef<const at::Tensor*> tensors, c10::SmallVector<at::Tensor, 2>& keep) {
  Pending<aclTensor> pending;
  for (const at::Tensor* tensor : tensors) {
    at::Tensor moved;
    pending.handles.push_back(tensor->defined() ? make_tensor(*tensor, moved) : nullptr);
    if (moved.defined()) keep.push_back(std::move(moved));
  }
  aclTensorList* list =
      made(cann::acl().aclCreateTensorList(pending.handles.data(), pending.handles.size()), "aclCreateTensorList");
  pending.handles.clear();
  return list;
}

aclScalarList* make_list(at::ArrayRef<at::Scalar> scalars) {
  Pending<aclScalar> pending;
  for (const at::Scalar& scalar : scalars) pending.handles.push_back(make_scalar(scalar));
  aclScalarList* list =
      made(cann::acl().aclCreateScalarList(pending.handles.data(), pending.handles.size()), "aclCreateScalarList");
  pending.handles.clear();
  return list;
}

void destroy(const aclTensor* handle) noexcept { cann::acl().aclDestroyTensor(handle); }
void destroy(const aclScalar* handle) noexcept { cann::acl().aclDestroyScalar(handle); }
void destroy(const aclIntArray* handle) noexcept { cann::acl().aclDestroyIntArray(handle); }
void destroy(const aclFloatArray* handle) noexcept { cann::acl().aclDestroyFloatArray(handle); }
void destroy(const aclBoolArray* handle) noexcept { cann::acl().aclDestroyBoolArray(handle); }
void destroy(const aclTensorList* handle) noexcept { cann::acl().aclDestroyTensorList(handle); }
void destroy(const aclScalarList* handle) noexcept { cann::acl().aclDestroyScalarList(handle); }

void follow_determinism() {
  static std::atomic<bool> told{false};
  const bool wanted = at::globalContext().deterministicAlgorithms();
  if (C10_LIKELY(told.load(std::memory_order_relaxed) == wanted)) return;
  const auto set = cann::acl().aclrtSetSysParamOpt;
  if (set) NPU_CHECK(set(ACL_OPT_DETERMINISTIC, wanted));
  told = wanted;  // last: what failed is tried again
}

AclnnSymbols::AclnnSymbols(const char* name)
    : name_(name),
      phase_one_(cann::find_opapi((std::string(name) + "GetWorkspaceSize").c_str())),
      phase_two_(reinterpret_cast<PhaseTwo>(cann::find_opapi(name))) {}

void AclnnSymbols::missing() const {
  const char* const packages = std::getenv("ASCEND_CUSTOM_OPP_PATH");
  TORCH_CHECK_NOT_IMPLEMENTED(
      false, "npu: ", name_, " was not found in ", cann::opapi_description(),
      ": the installed CANN lacks this operator",
      packages && *packages ? "" : "; ASCEND_CUSTOM_OPP_PATH, which names packages of your own, is not set");
}

void AclnnSymbols::launch(aclnnStatus status, const uint64_t& workspace_size, aclOpExecutor* const& executor) const {
  if (status != 0) cann::throw_status(status, name_, "GetWorkspaceSize");
  at::DataPtr workspace;
  try {
    refuse_stopped(current_device());
    if (workspace_size) workspace = device_allocator()->allocate(workspace_size);
  } catch (...) {  // phase two takes the executor; without it, it would stay
    static const auto destroy =
        reinterpret_cast<aclnnStatus (*)(aclOpExecutor*)>(cann::find_opapi("aclDestroyAclOpExecutor"));
    if (destroy) destroy(executor);
    throw;
  }
  status = phase_two_(workspace.get(), workspace_size, executor, current_raw_stream());
  if (status != 0) cann::throw_status(status, name_, "");
  wait_if_blocking();
}

}  // namespace detail
}  // namespace npu
