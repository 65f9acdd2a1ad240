// EXEC_NPU_CMD as extensions carry a copy of it: libraries by their bare names, aclCreate* and aclDestroy* by dlsym, the optional functions
// for huge memory, a handler for OpCommand. Written for this test in that shape.
#include <ATen/ATen.h>
#include <acl/acl_base.h>
#include <dlfcn.h>
#include <torch/library.h>
#include <torch_npu/csrc/framework/utils/CalcuOpUtil.h>
#include <torch_npu/csrc/framework/utils/OpAdapter.h>

#include "torch_npu/csrc/aten/NPUNativeFunctions.h"
#include "torch_npu/csrc/core/npu/NPUStream.h"
#include "torch_npu/csrc/framework/interface/EnvVariables.h"

namespace {

void* found_in(const char* library, const char* name) {
  void* handle = dlopen(library, RTLD_LAZY);
  if (!handle) {
    ASCEND_LOGW("dlopen %s failed, error:%s.", library, dlerror());
    return nullptr;
  }
  return dlsym(handle, name);
}

[[maybe_unused]] void add_to_key(const string&) {}  // so written in the macro's key of cached calls

void* GetOpApiFuncAddr(const char* name) {
  if (void* custom = found_in("libcust_opapi.so", name)) return custom;
  return found_in("libopapi.so", name);
}

template <class F>
F function(const char* name) {
  return reinterpret_cast<F>(GetOpApiFuncAddr(name));
}

aclTensor* ConvertType(const at::Tensor& tensor) {
  static const auto create = function<decltype(&aclCreateTensor)>("aclCreateTensor");
  const std::vector<int64_t> storage{static_cast<int64_t>(tensor.storage().nbytes() / tensor.itemsize())};
  return create(tensor.sizes().data(), tensor.dim(), ACL_FLOAT, tensor.strides().data(), tensor.storage_offset(),
                ACL_FORMAT_ND, storage.data(), storage.size(), const_cast<void*>(tensor.storage().data()));
}
aclScalar* ConvertType(const at::Scalar& scalar) {
  static const auto create = function<decltype(&aclCreateScalar)>("aclCreateScalar");
  double value = scalar.toDouble();
  return create(&value, ACL_DOUBLE);
}
template <class T>
T ConvertType(T value) {
  return value;
}

void Release(aclTensor* handle) {
  static const auto destroy = function<decltype(&aclDestroyTensor)>("aclDestroyTensor");
  destroy(handle);
}
void Release(aclScalar* handle) {
  static const auto destroy = function<decltype(&aclDestroyScalar)>("aclDestroyScalar");
  destroy(handle);
}
template <class T>
void Release(T) {}

using HugeMemory = void (*)(void*, bool);

}  // namespace

#define EXEC_NPU_CMD(api, ...)                                                                                        \
  do {                                                                                                                \
    static const auto one = GetOpApiFuncAddr(#api "GetWorkspaceSize");                                                \
    static const auto two = GetOpApiFuncAddr(#api);                                                                   \
    static const auto init = function<HugeMemory>("InitHugeMemThreadLocal");                                          \
    static const auto release = function<HugeMemory>("ReleaseHugeMem");                                               \
    TORCH_CHECK(one && two, #api, " not in libopapi.so");                                                             \
    auto stream = c10_npu::getCurrentNPUStream().stream(false);                                                       \
    uint64_t size = 0;                                                                                                \
    uint64_t* size_addr = &size;                                                                                      \
    aclOpExecutor* executor = nullptr;                                                                                \
    aclOpExecutor** executor_addr = &executor;                                                                        \
    if (init) init(nullptr, false);                                                                                   \
    auto params = [&](auto... each) { return std::make_tuple(ConvertType(each)...); }(__VA_ARGS__, size_addr,         \
                                                                                      executor_addr);                 \
    const int status =                                                                                                \
        std::apply([&](auto... each) { return reinterpret_cast<int (*)(decltype(each)...)>(one)(each...); }, params); \
    TORCH_CHECK(status == 0, "call " #api " failed, detail:", aclGetRecentErrMsg());                                  \
    void* workspace = nullptr;                                                                                        \
    at::Tensor memory;                                                                                                \
    if (size) {                                                                                                       \
      memory = at::empty({static_cast<int64_t>(size)},                                                                \
                         at::TensorOptions(torch_npu::utils::get_npu_device_type()).dtype(at::kByte));                \
      workspace = const_cast<void*>(memory.storage().data());                                                         \
    }                                                                                                                 \
    auto call = [=]() -> int {                                                                                        \
      using Two = int (*)(void*, uint64_t, aclOpExecutor*, const aclrtStream);                                        \
      const int result = reinterpret_cast<Two>(two)(workspace, size, executor, stream);                               \
      TORCH_CHECK(result == 0, "call " #api " failed, detail:", aclGetRecentErrMsg());                                \
      std::apply([](auto... each) { (Release(each), ...); }, params);                                                 \
      if (release) release(nullptr, false);                                                                           \
      return result;                                                                                                  \
    };                                                                                                                \
    at_npu::native::OpCommand cmd;                                                                                    \
    cmd.Name(#api);                                                                                                   \
    cmd.SetCustomHandler(call);                                                                                       \
    cmd.Run();                                                                                                        \
  } while (false)

static at::Tensor add(const at::Tensor& x, const at::Tensor& y, const at::Scalar& alpha) {
  at::Tensor out = at_npu::native::OpPreparation::apply_tensor_without_format(x);
  EXEC_NPU_CMD(aclnnAdd, x, y, alpha, out);
  return out;
}

// Of a package (cust_opapi.cpp).
static at::Tensor scaled(const at::Tensor& x, double scale) {
  at::Tensor out = at_npu::native::OpPreparation::apply_tensor_without_format(x);
  EXEC_NPU_CMD(aclnnScaleCust, x, scale, out);
  return out;
}

static at::Tensor missing(const at::Tensor& x) {
  EXEC_NPU_CMD(aclnnNobodyHasThis, x);
  return x;
}

// The log at a level that is on: ASCEND_GLOBAL_LOG_LEVEL of the process.
static void say(std::string text) { ASCEND_LOGE("said by an extension: %s", text.c_str()); }

TORCH_LIBRARY(copied_macro, m) {
  m.def("add(Tensor x, Tensor y, Scalar alpha) -> Tensor", &add);
  m.def("scaled(Tensor x, float scale) -> Tensor", &scaled);
  m.def("missing(Tensor x) -> Tensor", &missing);
  m.def("say(str text) -> ()", &say);
}
