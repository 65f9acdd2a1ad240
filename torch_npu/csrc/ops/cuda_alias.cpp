// See cuda_alias.h.
#include "torch_npu/csrc/ops/cuda_alias.h"

#include <ATen/core/Tensor.h>
#include <ATen/ops/empty_ops.h>
#include <ATen/ops/empty_strided_ops.h>
#include <ATen/ops/to_native.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <torch/library.h>

#include <vector>

#include "csrc/core/torch_version.h"
#include "torch_npu/csrc/ops/cuda_alias_script.h"
#include "torch_npu/csrc/ops/cuda_alias_select.h"

namespace npu::cuda_alias {
namespace {

using c10::Device;
using c10::DeviceIndex;
using c10::DeviceType;
using c10::Stream;

Device to_npu(Device device) { return device.is_cuda() ? Device(DeviceType::PrivateUse1, device.index()) : device; }

std::optional<Device> to_npu(std::optional<Device> device) {
  return device ? std::optional<Device>(to_npu(*device)) : device;
}

// Code that holds a cuda device guards it: every call goes to the npu's guard, which keeps the one current device.
// Devices and streams it returns are the caller's kind again, so that a guard restores what it exchanged.
class Guard final : public AsksForStreams<c10::impl::DeviceGuardImplInterface> {
 public:
  DeviceType type() const override { return DeviceType::CUDA; }
  Device exchangeDevice(Device device) const override { return to_cuda(npu().exchangeDevice(to_npu(device))); }
  Device getDevice() const override { return to_cuda(npu().getDevice()); }
  void setDevice(Device device) const override { npu().setDevice(to_npu(device)); }
  void uncheckedSetDevice(Device device) const noexcept override { npu().uncheckedSetDevice(to_npu(device)); }
  Stream getStream(Device device) const override { return to_cuda(npu().getStream(to_npu(device))); }
  Stream getDefaultStream(Device device) const override { return to_cuda(npu().getDefaultStream(to_npu(device))); }
  Stream getStreamFromGlobalPool(Device device, bool high) const override {
    return to_cuda(npu().getStreamFromGlobalPool(to_npu(device), high));
  }
  Stream getNewStream(Device device, int priority) const override {
    return to_cuda(npu().getNewStream(to_npu(device), priority));
  }
  Stream exchangeStream(Stream stream) const override { return to_cuda(npu().exchangeStream(of_npu(stream))); }
  void* getStreamNativeHandle(const Stream stream) const override {
    return npu().getStreamNativeHandle(of_npu(stream));
  }
  void destroyEvent(void* event, const DeviceIndex device) const noexcept override {
    npu().destroyEvent(event, device);
  }
  void record(void** event, const Stream& stream, const DeviceIndex device, const c10::EventFlag flag) const override {
    npu().record(event, of_npu(stream), device, flag);
  }
  void block(void* event, const Stream& stream) const override { npu().block(event, of_npu(stream)); }
  bool queryEvent(void* event) const override { return npu().queryEvent(event); }
  DeviceIndex deviceCount() const noexcept override { return npu().deviceCount(); }
  c10::DeviceCapability getDeviceCapability(Device device) const override {
    return npu().getDeviceCapability(to_npu(device));
  }
  bool queryStream(const Stream& stream) const override { return npu().queryStream(of_npu(stream)); }
  void synchronizeStream(const Stream& stream) const override { npu().synchronizeStream(of_npu(stream)); }
  bool isStreamCapturing(const Stream& stream) const override { return npu().isStreamCapturing(of_npu(stream)); }
  void synchronizeEvent(void* event) const override { npu().synchronizeEvent(event); }
  void synchronizeDevice(const DeviceIndex device) const override { npu().synchronizeDevice(device); }
  void recordDataPtrOnStream(const c10::DataPtr& data, const Stream& stream) const override {
    npu().recordDataPtrOnStream(data, of_npu(stream));
  }
  double elapsedTime(void* start, void* end, const DeviceIndex device) const override {
    return npu().elapsedTime(start, end, device);
  }

 private:
  using Npus = AsksForStreams<c10::impl::DeviceGuardImplInterface>;
  static const Npus& npu() { return static_cast<const Npus&>(*c10::impl::getDeviceGuardImpl(DeviceType::PrivateUse1)); }
  static Device to_cuda(Device device) { return Device(DeviceType::CUDA, device.index()); }
  static Stream to_cuda(Stream stream) { return Stream(Stream::UNSAFE, to_cuda(stream.device()), stream.id()); }
  static Stream of_npu(Stream stream) { return Stream(Stream::UNSAFE, to_npu(stream.device()), stream.id()); }
};

// Nearly every factory ends in these two; the rest take the fallback.
at::Tensor empty(c10::SymIntArrayRef size, std::optional<at::ScalarType> dtype, std::optional<at::Layout> layout,
                 std::optional<Device> device, std::optional<bool> pin_memory,
                 std::optional<at::MemoryFormat> memory_format) {
  return at::_ops::empty_memory_format::call(size, dtype, layout, to_npu(device), pin_memory, memory_format);
}

at::Tensor empty_strided(c10::SymIntArrayRef size, c10::SymIntArrayRef stride, std::optional<at::ScalarType> dtype,
                         std::optional<at::Layout> layout, std::optional<Device> device,
                         std::optional<bool> pin_memory) {
  return at::_ops::empty_strided::call(size, stride, dtype, layout, to_npu(device), pin_memory);
}

// Any other operator that is asked for a cuda device: the same call with the npu's.
void call_on_npu(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  bool found = false;
  const size_t arguments = op.schema().arguments().size();
  for (auto& value : torch::jit::last(*stack, arguments)) {
    if (value.isDevice() && value.toDevice().is_cuda()) {
      const_cast<c10::IValue&>(value) = c10::IValue(to_npu(value.toDevice()));
      found = true;
    }
  }
  TORCH_CHECK_NOT_IMPLEMENTED(found, "npu: ", op.schema().name(),
                              " has a tensor of type cuda among its arguments, but "
                              "this PyTorch has no CUDA; it cannot be run on the npu");
  op.callBoxed(stack);
}

// An npu tensor moved to "cuda" is where it should be: without these it would be copied. They do what PyTorch's own
// composite kernels do, the device aside. Both keys are needed: inference mode drops the autograd one.
at::Tensor to_device(const at::Tensor& self, Device device, at::ScalarType dtype, bool non_blocking, bool copy,
                     std::optional<at::MemoryFormat> memory_format) {
  return at::native::to(self, to_npu(device), dtype, non_blocking, copy, memory_format);
}

at::Tensor to_options(const at::Tensor& self, std::optional<at::ScalarType> dtype, std::optional<at::Layout> layout,
                      std::optional<Device> device, std::optional<bool> pin_memory, bool non_blocking, bool copy,
                      std::optional<at::MemoryFormat> memory_format) {
  return at::native::to(self, dtype, layout, to_npu(device), pin_memory, non_blocking, copy, memory_format);
}

std::atomic<const c10::impl::DeviceGuardImplInterface*>& guard_slot() {
  return c10::impl::device_guard_impl_registry[static_cast<size_t>(DeviceType::CUDA)];
}

const Guard* our_guard() {
  static const Guard* const guard = new Guard();  // the registry may be read at exit
  return guard;
}

// Destroying a Library removes what it registered. Never destroyed at exit: the dispatcher may be gone.
std::vector<torch::Library>& libraries() {
  static auto* const all = new std::vector<torch::Library>();
  return *all;
}

torch::Library& add_library(const char* ns, c10::DispatchKey key) {
  return libraries().emplace_back(torch::Library::IMPL, ns, key, __FILE__, __LINE__);
}

void register_to(c10::DispatchKey key) {
  auto& library = add_library("aten", key);
  library.impl("to.device", &to_device);
  library.impl("to.dtype_layout", &to_options);
}

// Where the CUDA key is free: a call costs what it cost.
void register_key() {
  using c10::DispatchKey;
  auto& cuda = add_library("aten", DispatchKey::CUDA);
  cuda.impl("empty.memory_format", &empty);
  cuda.impl("empty_strided", &empty_strided);
  for (auto key : {DispatchKey::CUDA, DispatchKey::QuantizedCUDA, DispatchKey::SparseCUDA, DispatchKey::SparseCsrCUDA,
                   DispatchKey::NestedTensorCUDA}) {
    add_library("_", key).fallback(torch::CppFunction::makeFromBoxedFunction<&call_on_npu>());
  }
}

void register_all(bool key_is_free) {
  using c10::DispatchKey;
  if (key_is_free) {
    register_key();
  } else {
    cover_backend_select(add_library("aten", DispatchKey::BackendSelect));
    // "cuda" without an index asks CUDA's guard for the current device before any operator with a kernel is called.
    const Silence silence;
    register_to(DispatchKey::CompositeImplicitAutograd);
  }
  register_to(DispatchKey::PrivateUse1);
  register_to(DispatchKey::AutogradPrivateUse1);
  wrap_script_to();
}

}  // namespace

bool enabled() noexcept { return !libraries().empty(); }

void enable() {
  if (enabled()) {
    return;
  }
  const c10::impl::DeviceGuardImplInterface* empty_slot = nullptr;
  const bool key_is_free = guard_slot().compare_exchange_strong(empty_slot, our_guard());
  try {
    register_all(key_is_free);
  } catch (...) {
    disable();
    throw;
  }
}

void disable() {
  restore_script_to();
  libraries().clear();
  const c10::impl::DeviceGuardImplInterface* ours = our_guard();
  guard_slot().compare_exchange_strong(ours, nullptr);
}

}  // namespace npu::cuda_alias
