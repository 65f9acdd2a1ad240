// Models of AOTInductor on the npu, loaded by PyTorch's own loaders: torch._inductor.aoti_load_package and, in C++,
// torch::inductor::AOTIModelPackageLoader, which look for the device's name in a registry. What it is not: what a model calls (runtime.cpp).
#include <c10/core/DeviceType.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <torch/csrc/inductor/aoti_runner/model_container_runner.h>

#include <charconv>
#include <limits>

#include "csrc/core/device.h"

namespace {

// "npu:1" -> 1; "npu" is the current device.
c10::DeviceIndex index_of(const std::string& device) {
  const auto colon = device.find(':');
  if (colon == std::string::npos) return npu::current_device();
  int index = -1;
  const char* const end = device.data() + device.size();
  const auto [rest, failed] = std::from_chars(device.data() + colon + 1, end, index);
  constexpr int kMost = std::numeric_limits<c10::DeviceIndex>::max();
  TORCH_CHECK(failed == std::errc() && rest == end && index <= kMost,
              "a compiled model's device is npu or npu:<number>, not ", device);
  npu::check_device(static_cast<c10::DeviceIndex>(index));
  return static_cast<c10::DeviceIndex>(index);
}

class Runner final : public torch::inductor::AOTIModelContainerRunner {
 public:
  // "cuda": how the model calls its device (torch_npu/csrc/inductor/npu.h). Creating it makes its device current: `guard` of the caller.
  Runner(const std::string& path, size_t models, c10::DeviceIndex index, const std::string& binaries, bool one_thread)
      : AOTIModelContainerRunner(path, models, "cuda:" + std::to_string(index), binaries, one_thread), index_(index) {}

  std::vector<at::Tensor> run_impl(std::vector<AtenTensorHandle>& inputs, void* stream) override {
    const npu::NPUGuard guard(index_);
    const c10::impl::ExcludeDispatchKeyGuard chosen(c10::autocast_dispatch_keyset);  // a model's types are chosen
    return AOTIModelContainerRunner::run_impl(inputs, stream);
  }

 private:
  c10::DeviceIndex index_;
};

std::unique_ptr<torch::inductor::AOTIModelContainerRunner> create(const std::string& path, size_t models,
                                                                  const std::string& device,
                                                                  const std::string& binaries, const bool one_thread) {
  const c10::DeviceIndex index = index_of(device);
  const npu::NPUGuard guard(index);
  return std::make_unique<Runner>(path, models, index, binaries, one_thread);
}

// A program without Python has given the device no name, by which loaders look for it; Python gives it the same one.
const bool named = (c10::register_privateuse1_backend("npu"), true);
const torch::inductor::RegisterAOTIModelRunner registered("npu", &create);

}  // namespace
