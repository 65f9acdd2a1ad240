// What torch_npu/include declares, called: each operator of torch.ops.contract uses one thing and gives back what tests compare.
#include <ATen/ATen.h>
#include <malloc.h>
#include <torch/library.h>

#include "npu_cpp_extension.h"
#include "op_plugin/utils/op_api_common_base.h"
#include "third_party/acl/inc/acl/acl_rt.h"
#include "torch_npu/csrc/aten/NPUGeneratorImpl.h"
#include "torch_npu/csrc/aten/NPUNativeFunctions.h"
#include "torch_npu/csrc/aten/common/from_blob.h"
#include "torch_npu/csrc/core/NPUBridge.h"
#include "torch_npu/csrc/core/npu/CachingHostAllocator.h"
#include "torch_npu/csrc/core/npu/DeviceUtils.h"
#include "torch_npu/csrc/core/npu/NPUCachingAllocator.h"
#include "torch_npu/csrc/core/npu/NPUEvent.h"
#include "torch_npu/csrc/core/npu/NPUException.h"
#include "torch_npu/csrc/core/npu/NPUFormat.h"
#include "torch_npu/csrc/core/npu/NPUFunctions.h"
#include "torch_npu/csrc/core/npu/NPUGuard.h"
#include "torch_npu/csrc/core/npu/NPUMacros.h"
#include "torch_npu/csrc/core/npu/NPUStream.h"
#include "torch_npu/csrc/core/npu/npu_log.h"
#include "torch_npu/csrc/core/npu/register/OptionsManager.h"
#include "torch_npu/csrc/extension/custom_op.h"
#include "torch_npu/csrc/extension/exec_npu_cmd.h"
#include "torch_npu/csrc/framework/OpCommand.h"
#include "torch_npu/csrc/framework/interface/EnvVariables.h"
#include "torch_npu/csrc/framework/utils/CalcuOpUtil.h"
#include "torch_npu/csrc/framework/utils/OpAdapter.h"
#include "torch_npu/csrc/framework/utils/OpPreparation.h"
#include "torch_npu/csrc/framework/utils/RandomOpAdapter.h"
#include "torch_npu/csrc/include/ops.h"

// What an extension carries that was written without our header: its own declarations of the storage, by the same layout.
namespace copied {

struct Desc {
  struct Nothing {};
  c10::SmallVector<int64_t, 5> sizes, strides, storage_sizes;
  int64_t offset = 0;
  Nothing dtype;
  aclFormat origin = ACL_FORMAT_UNDEFINED, format = ACL_FORMAT_ND;
  caffe2::TypeMeta type;
};
struct Impl : c10::StorageImpl {
  using c10::StorageImpl::StorageImpl;
  Desc desc;
};

}  // namespace copied

namespace {

using at::Tensor;

template <class Sizes>
void append(std::vector<int64_t>& all, const Sizes& sizes) {
  all.push_back(static_cast<int64_t>(sizes.size()));
  all.insert(all.end(), sizes.begin(), sizes.end());
}
int64_t type_number(caffe2::TypeMeta type) { return static_cast<int64_t>(c10::typeMetaToScalarType(type)); }

// Format, base offset, type, format by nature; then the three lists of sizes, each after its length.
std::vector<int64_t> description(const Tensor& x) {
  const torch_npu::NPUStorageDesc& desc = torch_npu::NPUBridge::GetNpuStorageImplDesc(x);
  std::vector<int64_t> all{desc.npu_format_, desc.base_offset_, type_number(desc.data_type_), desc.origin_format_};
  append(all, desc.base_sizes_);
  append(all, desc.base_strides_);
  append(all, desc.storage_sizes_);
  return all;
}
std::vector<int64_t> description_by_a_copy(const Tensor& x) {
  const copied::Desc& desc = static_cast<copied::Impl*>(x.storage().unsafeGetStorageImpl())->desc;
  std::vector<int64_t> all{desc.format, desc.offset, type_number(desc.type), desc.origin};
  append(all, desc.sizes);
  append(all, desc.strides);
  append(all, desc.storage_sizes);
  return all;
}
// Bytes that the object behind the storage has on the heap, and bytes that such a copy reads of it.
std::vector<int64_t> description_room(const Tensor& x) {
  c10::StorageImpl* impl = x.storage().unsafeGetStorageImpl();
  return {static_cast<int64_t>(malloc_usable_size(impl)), static_cast<int64_t>(sizeof(copied::Impl))};
}
void set_format(const Tensor& x, int64_t format) {
  torch_npu::NPUBridge::GetNpuStorageImpl(x)->npu_desc_.npu_format_ = static_cast<aclFormat>(format);
}
using at_npu::native::OpCommand;
using c10_npu::NPUStream;

int64_t address(const void* pointer) { return static_cast<int64_t>(reinterpret_cast<uintptr_t>(pointer)); }

// Handle of the current stream three ways, its id, device, that of the default stream.
std::vector<int64_t> streams() {
  const NPUStream current = c10_npu::getCurrentNPUStream();
  TORCH_CHECK(NPUStream::unpack3(current.id(), current.device_index(), current.device_type()) == current);
  return {address(current.stream()),
          address(current.stream(true)),
          address(static_cast<aclrtStream>(current)),
          current.id(),
          current.device_index(),
          address(c10_npu::getDefaultNPUStream().stream())};
}

// With a guard: the current stream's id before, in, after.
std::vector<int64_t> stream_guard(bool high) {
  const int64_t before = c10_npu::getCurrentNPUStream().id();
  int64_t within = 0;
  const NPUStream stream = c10_npu::getStreamFromPool(high);
  {
    const c10_npu::NPUStreamGuard guard(stream);
    TORCH_CHECK(guard.current_stream() == stream && guard.original_stream().id() == before);
    within = c10_npu::getCurrentNPUStream() == stream ? stream.id() : -1;
  }
  return {before, within, c10_npu::getCurrentNPUStream().id()};
}

// The current device: before, in a guard of `index`, in an inner one of 0, after both; by GetDevice.
std::vector<int64_t> device_guard(int64_t index) {
  std::vector<int64_t> seen;
  const auto look = [&] {
    int32_t device = -1;
    TORCH_CHECK(c10_npu::GetDevice(&device) == ACL_ERROR_NONE && device == c10_npu::current_device());
    seen.push_back(device);
  };
  look();
  {
    c10_npu::NPUGuard guard(static_cast<c10::DeviceIndex>(index));
    look();
    {
      c10_npu::OptionalNPUGuard inner;
      inner.set_index(0);
      look();
    }
    look();
  }
  look();
  return seen;
}

int64_t exchange_device(int64_t index) {
  const int former = c10_npu::ExchangeDevice(static_cast<int>(index));
  const int64_t now = c10_npu::current_device();
  c10_npu::set_device(static_cast<c10::DeviceIndex>(former));
  return now;
}

// Milliseconds between two events around `x + x`, microseconds between their times.
std::tuple<double, int64_t> timed(const Tensor& x) {
  c10_npu::NPUEvent start(ACL_EVENT_TIME_LINE), end(ACL_EVENT_TIME_LINE);
  TORCH_CHECK(!start.isCreated() && start.query());
  start.record();
  const Tensor sum = x + x;
  end.record(c10_npu::getCurrentNPUStream());
  const double milliseconds = start.elapsed_time(end);
  c10_npu::NPUEvent moved(std::move(end));
  TORCH_CHECK(moved.query() && moved.device_index() == x.device().index());
  return {milliseconds, static_cast<int64_t>(moved.recorded_time() - start.recorded_time())};
}

void untimed() {
  c10_npu::NPUEvent one, two;
  one.record();
  two.record();
  one.elapsed_time(two);
}

// Another stream waits by an event for what the current one computes.
Tensor waited(const Tensor& x) {
  const NPUStream side = c10_npu::getNPUStreamFromPool();
  c10_npu::NPUEvent ready;
  const Tensor twice = x * 2;
  ready.record();
  ready.block(side);
  Tensor result;
  {
    const c10_npu::NPUStreamGuard guard(side);
    result = twice + 1;
    c10_npu::NPUCachingAllocator::recordStream(twice.storage().data_ptr(), side);
  }
  side.synchronize();
  TORCH_CHECK(side.query());
  return result;
}

// Bytes that the cache counts as allocated: before, with a raw block, after.
std::vector<int64_t> raw_memory(int64_t bytes) {
  std::vector<int64_t> seen;
  const auto look = [&] {
    const auto stats = c10_npu::NPUCachingAllocator::get()->getDeviceStats(c10_npu::current_device());
    seen.push_back(
        stats.allocated_bytes[static_cast<size_t>(c10_npu::NPUCachingAllocator::StatType::AGGREGATE)].current);
  };
  look();
  void* block = c10_npu::NPUCachingAllocator::raw_alloc(bytes);
  look();
  c10_npu::NPUCachingAllocator::raw_delete(block);
  look();
  return seen;
}

std::vector<int64_t> pinned() {
  const c10::DataPtr data = at_npu::native::getCachingHostAllocator()->allocate(64);
  const NPUStream stream = c10_npu::getCurrentNPUStream();
  int foreign = 0;
  return {at_npu::native::CachingHostAllocator_recordEvent(data.get(), data.get_context(), stream),
          at_npu::native::CachingHostAllocator_recordEvent(&foreign, &foreign, stream)};
}

Tensor blob(const Tensor& x) {
  return at_npu::native::from_blob(x.data_ptr(), {2, 2}, {4, 1}, 1, nullptr, x.options());
}

// How often the deleter was called while a tensor lived, and after.
std::vector<int64_t> blob_deleter(const Tensor& x) {
  int64_t calls = 0;
  std::vector<int64_t> seen;
  {
    const Tensor made = at_npu::native::from_blob(
        x.data_ptr(), x.sizes(), [&](void*) { ++calls; }, at::TensorOptions().dtype(x.scalar_type()));
    TORCH_CHECK(made.device() == x.device() && made.data_ptr() == x.data_ptr());
    seen.push_back(calls);
  }
  seen.push_back(calls);
  return seen;
}

Tensor prepared(const Tensor& x, at::IntArrayRef sizes) {
  return at_npu::native::OpPreparation::apply_tensor_without_format(x, sizes);
}

Tensor with_format(at::IntArrayRef sizes, int64_t format) {
  return at_npu::native::empty_with_format(sizes, at::TensorOptions().dtype(at::kHalf), format);
}

std::vector<int64_t> philox(std::optional<at::Generator> given, int64_t count) {
  auto* generator =
      at::get_generator_or_default<at_npu::NPUGeneratorImpl>(given, at_npu::detail::getDefaultNPUGenerator());
  const auto [seed, offset] = generator->philox_engine_inputs(count);
  return {static_cast<int64_t>(seed), static_cast<int64_t>(offset),
          static_cast<int64_t>(generator->philox_offset_per_thread())};
}

int64_t command(int64_t status) {
  int64_t calls = 0;
  OpCommand cmd;
  cmd.Name("aclnnPretended").SetCustomHandler([&]() -> int { return ++calls, static_cast<int>(status); }).Sync().Run();
  OpCommand::RunOpApi("aclnnPretended", [&]() -> int { return ++calls, 0; });
  OpCommand::RunOpApiV2("aclnnPretended", [&]() -> int { return ++calls, 0; }, true);
  return calls;
}

// The id of the stream that is current in the handler of RunOpApiV3.
int64_t command_stream(bool other) {
  int64_t seen = -1;
  NPUStream stream = c10_npu::getNPUStreamFromPool();
  const auto look = [&]() -> int { return seen = c10_npu::getCurrentNPUStream().id(), 0; };
  OpCommand::RunOpApiV3("aclnnPretended", look, false, other ? &stream : nullptr);
  TORCH_CHECK(seen == (other ? stream : c10_npu::getCurrentNPUStream()).id());
  return seen;
}

void described(Tensor x) { OpCommand().Name("RoiAlign").Input(x).Attr("pooled", int64_t{7}).Output(x).Run(); }

void nameless() {
  OpCommand().SetCustomHandler([]() -> int { return 0; }).Run();
}

void check_status(int64_t status) { NPU_CHECK_ERROR(static_cast<aclError>(status)); }

void sync_debug(int64_t mode) {
  c10_npu::warning_state().set_sync_debug_mode(static_cast<c10_npu::SyncDebugMode>(mode));
  c10_npu::warn_or_error_on_sync();
}

// EXEC_NPU_CMD_EXT: each kind of argument.
Tensor add(const Tensor& x, const Tensor& y, const at::Scalar& alpha) {
  Tensor out = at::empty_like(x);
  EXEC_NPU_CMD_EXT(aclnnAdd, x, y, alpha, out);
  return out;
}
Tensor cat(at::TensorList tensors, int64_t dim) {
  std::vector<int64_t> sizes = tensors[0].sizes().vec();
  sizes[dim] = 0;
  for (const Tensor& tensor : tensors) sizes[dim] += tensor.size(dim);
  Tensor out = prepared(tensors[0], sizes);
  EXEC_NPU_CMD_EXT(aclnnCat, tensors, dim, out);
  return out;
}
Tensor sum(const Tensor& x, at::IntArrayRef dims, at::ScalarType type) {
  Tensor out = at::empty({x.size(1)}, x.options().dtype(type));
  EXEC_NPU_CMD_EXT(aclnnReduceSum, x, dims, false, type, out);
  return out;
}
// The clamp without one of its bounds: null, whatever number is not given.
Tensor clamp(const Tensor& x, const std::optional<at::Scalar>& low, const std::optional<at::Scalar>& high) {
  Tensor out = at::empty_like(x);
  std::optional<double> least;
  if (low) least = low->toDouble();
  EXEC_NPU_CMD_EXT(aclnnClamp, x, least, high, out);
  return out;
}
// A text in each way that C++ has it; no offset; a list of C.
Tensor quantized(const Tensor& x, const Tensor& scale, int64_t way) {
  Tensor out = at::empty_like(x, x.options().dtype(at::kChar));
  std::string mode = "round";
  char* const pointer = mode.data();
  const int32_t type = ACL_INT8;
  if (way == 0) EXEC_NPU_CMD_EXT(aclnnAscendQuant, x, scale, nullptr, false, "round", type, out);
  if (way == 1) EXEC_NPU_CMD_EXT(aclnnAscendQuant, x, scale, nullptr, false, pointer, type, out);
  if (way == 2) EXEC_NPU_CMD_EXT(aclnnAscendQuant, x, scale, std::optional<Tensor>(), false, mode, type, out);
  if (way >= 3) {
    const int64_t dims[] = {0};
    const std::vector<int64_t> vector = {0};
    const std::array<int64_t, 1> array = {0};
    Tensor kept = at::empty({1, x.size(1)}, x.options());
    if (way == 3) EXEC_NPU_CMD_EXT(aclnnReduceSum, x, dims, true, at::kFloat, kept);
    if (way == 4) EXEC_NPU_CMD_EXT(aclnnReduceSum, x, vector, true, at::kFloat, kept);
    if (way == 5) EXEC_NPU_CMD_EXT(aclnnReduceSum, x, array, true, at::kFloat, kept);
    if (way == 6) EXEC_NPU_CMD_EXT(aclnnCat, std::vector<Tensor>({x.sum(0, true)}), 0L, kept);
    const int ints[] = {-2};
    const std::vector<int16_t> shorts = {0};
    if (way == 7) EXEC_NPU_CMD_EXT(aclnnReduceSum, x, ints, true, at::kFloat, kept);
    if (way == 8) EXEC_NPU_CMD_EXT(aclnnReduceSum, x, shorts, true, at::kFloat, kept);
    const std::vector<c10::SymInt> zero = {0};
    const at::OptionalSymIntArrayRef symbols = c10::SymIntArrayRef(zero);
    if (way == 9) EXEC_NPU_CMD_EXT(aclnnReduceSum, x, symbols, true, at::kFloat, kept);
    if (way == 10) EXEC_NPU_CMD_EXT(aclnnReduceSum, x, std::optional(vector), true, at::kFloat, kept);
    EXEC_NPU_CMD_EXT(aclnnAscendQuant, kept.expand_as(x), scale, nullptr, false, mode.c_str(), type, out);
  }
  return out;
}
Tensor missing(const Tensor& x) {
  EXEC_NPU_CMD_EXT(aclnnNobodyHasThis, x);
  return x;
}
// aclnnScaleCust of whatever package is found.
Tensor scaled(const Tensor& x, double scale) {
  Tensor out = at::empty_like(x);
  EXEC_NPU_CMD_EXT(aclnnScaleCust, x, scale, out);
  return out;
}

}  // namespace

TORCH_LIBRARY(contract, m) {
  m.def("streams() -> int[]", &streams);
  m.def("stream_guard(bool high) -> int[]", &stream_guard);
  m.def("device_guard(int index) -> int[]", &device_guard);
  m.def("exchange_device(int index) -> int", &exchange_device);
  m.def("device_count() -> int", [] { return int64_t{c10_npu::device_count_ensure_non_zero()}; });
  m.def("synchronize() -> bool", [] { return c10_npu::npuSynchronizeDevice(false); });
  m.def("timed(Tensor x) -> (float, int)", &timed);
  m.def("untimed() -> ()", &untimed);
  m.def("waited(Tensor x) -> Tensor", &waited);
  m.def("raw_memory(int bytes) -> int[]", &raw_memory);
  m.def("pinned() -> int[]", &pinned);
  m.def("blob(Tensor x) -> Tensor", &blob);
  m.def("blob_deleter(Tensor x) -> int[]", &blob_deleter);
  m.def("prepared(Tensor x, int[] sizes) -> Tensor", &prepared);
  m.def("with_format(int[] sizes, int format) -> Tensor", &with_format);
  m.def("get_npu_format(Tensor x) -> int", &at_npu::native::get_npu_format);
  m.def("npu_format_cast(Tensor x, int format) -> Tensor", &at_npu::native::NPUNativeFunctions::npu_format_cast);
  m.def("storage_sizes(Tensor x) -> int[]", &at_npu::native::get_npu_storage_sizes);
  m.def("description(Tensor x) -> int[]", &description);
  m.def("description_room(Tensor x) -> int[]", &description_room);
  m.def("description_by_a_copy(Tensor x) -> int[]", &description_by_a_copy);
  m.def("set_format(Tensor x, int format) -> ()", &set_format);
  m.def("is_npu(Tensor x) -> bool", [](const Tensor& x) { return torch_npu::utils::is_npu(x); });
  m.def("initialize(Device device) -> ()", [](at::Device device) { torch_npu::utils::maybe_initialize_npu(device); });
  m.def("philox(Generator? generator, int count) -> int[]", &philox);
  m.def("command(int status) -> int", &command);
  m.def("command_stream(bool other) -> int", &command_stream);
  m.def("described(Tensor x) -> ()", &described);
  m.def("nameless() -> ()", &nameless);
  m.def("check_status(int status) -> ()", &check_status);
  m.def("sync_debug(int mode) -> ()", &sync_debug);
  m.def("logs(int level) -> bool", [](int64_t level) {
    return c10_npu::option::OptionsManager::isACLGlobalLogOn(static_cast<aclLogLevel>(level));
  });
  m.def("add(Tensor x, Tensor y, Scalar alpha) -> Tensor", &add);
  m.def("cat(Tensor[] tensors, int dim) -> Tensor", &cat);
  m.def("sum(Tensor x, int[] dims, ScalarType type) -> Tensor", &sum);
  m.def("clamp(Tensor x, Scalar? low, Scalar? high) -> Tensor", &clamp);
  m.def("quantized(Tensor x, Tensor scale, int way) -> Tensor", &quantized);
  m.def("missing(Tensor x) -> Tensor", &missing);
  m.def("scaled(Tensor x, float scale) -> Tensor", &scaled);
}
