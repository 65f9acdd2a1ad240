// Models of AOTInductor on the npu, loaded by PyTorch's own loaders: torch._inductor.aoti_load_package and, in C++,
// torch::inductor::AOTIModelPackageLoader, which look for the device's name in a registry. What it is not: what a model calls (runtime.cpp).
#include <c10/core/DeviceType.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <torch/csrc/inductor/aoti_runner/model_container_runner.h>

#include <charconv>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <utility>

#include "csrc/core/device.h"
#include "csrc/core/device_index.h"
#include "csrc/core/without_gil.h"

namespace {

// "npu:1" -> 1; "npu" is the current device.
c10::DeviceIndex index_of(const std::string& device) {
  const auto colon = device.find(':');
  if (colon == std::string::npos) return npu::current_device();
  int index = -1;
  const char* const end = device.data() + device.size();
  const auto [rest, failed] = std::from_chars(device.data() + colon + 1, end, index);
  TORCH_CHECK(failed == std::errc() && rest == end && index >= 0,
              "a compiled model's device is npu or npu:<number>, not ", device);
  return npu::existing_device(index);
}

using Handle = AOTInductorModelContainerHandle;

// Who may use a model, in the order of coming, so that nobody waits for ever: calls side by side, as many as there are runners; a change of
// the weights alone. PyTorch's container does not keep these apart, and whoever finds no runner free waits there, also where nobody would
// wake it: a run that fails does not. Nobody finds none free.
class Turns {
 public:
  explicit Turns(size_t count) : most_(count) {}

  void take(bool alone) {
    std::unique_lock lock(mutex_);
    const auto mine = last_++;
    changed_.wait(lock, [&] { return mine == next_ && running_ < (alone ? 1 : most_); });
    ++next_;
    running_ += alone ? most_ : 1;
    changed_.notify_all();
  }
  void give_back(bool alone) {
    const std::lock_guard lock(mutex_);
    running_ -= alone ? most_ : 1;
    changed_.notify_all();
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::uint64_t last_ = 0, next_ = 0;
  const size_t most_;
  size_t running_ = 0;
};

struct Model {
  c10::DeviceIndex index;
  Turns turns;
  void (*functions[10])() = {};
  AOTIRuntimeError (*remove)(Handle) = nullptr;

  Model(c10::DeviceIndex i, size_t count) : index(i), turns(count) {}
};

// A call of a model by this thread, which an operator in Python within the model may lead back to.
class Call {
 public:
  Call(Model& model, bool alone) : model_(model), alone_(alone), outer_(innermost) {
    for (const Call* call = outer_; call != nullptr; call = call->outer_)
      TORCH_CHECK(&call->model_ != &model,
                  "a compiled model is called from within itself: load it a second time for that");
    model_.turns.take(alone_);
    innermost = this;
  }
  ~Call() {
    innermost = outer_;
    model_.turns.give_back(alone_);
  }
  Call(const Call&) = delete;
  Call& operator=(const Call&) = delete;

 private:
  static thread_local const Call* innermost;
  Model& model_;
  const bool alone_;
  const Call* const outer_;
};
thread_local const Call* Call::innermost = nullptr;

// The models that are loaded, by what their functions are called with.
struct Models {
  std::mutex mutex;
  std::unordered_map<Handle, std::shared_ptr<Model>> all;

  std::shared_ptr<Model> find(Handle handle) {
    const std::lock_guard lock(mutex);
    return all.at(handle);
  }
};
Models& models() {
  static auto& known = *new Models;  // models may die after everything else
  return known;
}

// Python calls a model with the interpreter's lock held, and the model waits: for a full stream, for the device, for its own locks. It
// does so without the lock, on its device, with the types it was made with. Of PyTorch's class most is not virtual, but what it calls of
// the model's library is a pointer each: these functions take their place.
class Runner final : public torch::inductor::AOTIModelContainerRunner {
 public:
  // "cuda": how the model calls its device (torch_npu/csrc/inductor/npu.h). Creating it makes its device current: `guard` of the caller.
  Runner(const std::string& path, size_t count, c10::DeviceIndex index, const std::string& binaries, bool one_thread)
      : AOTIModelContainerRunner(path, count, "cuda:" + std::to_string(index), binaries, one_thread) {
    const auto model = std::make_shared<Model>(index, one_thread ? 1 : count);
    surround<0>(*model, run_func_);
    surround<1>(*model, extract_constants_map_func_);
    surround<2>(*model, update_user_managed_constant_buffer_func_);
    surround<3>(*model, update_constant_buffer_func_);
    surround<4>(*model, update_constant_buffer_from_cpu_func_);
    surround<5>(*model, update_inactive_constant_buffer_func_);
    surround<6>(*model, run_const_fold_func_);
    surround<7>(*model, swap_constant_buffer_func_);
    surround<8>(*model, free_inactive_constant_buffer_func_);
    surround<9>(*model, update_constants_from_blob_func_);
    model->remove = std::exchange(delete_func_, &remove);
    const std::lock_guard lock(models().mutex);
    models().all[container_handle_] = model;
  }

 private:
  template <size_t n, class... Rest>
  static void surround(Model& model, AOTIRuntimeError (*&function)(Handle, Rest...)) {
    if (function == nullptr) return;  // an older model has it not
    model.functions[n] = reinterpret_cast<void (*)()>(function);
    function = &around<n, Rest...>;
  }
  template <size_t n, class... Rest>
  static AOTIRuntimeError around(Handle handle, Rest... rest) {
    const npu::WithoutGil release;
    const auto model = models().find(handle);
    const Call call(*model, n != 0);
    const npu::NPUGuard guard(model->index);
    const c10::impl::ExcludeDispatchKeyGuard chosen(c10::autocast_dispatch_keyset);
    return reinterpret_cast<AOTIRuntimeError (*)(Handle, Rest...)>(model->functions[n])(handle, rest...);
  }
  static AOTIRuntimeError remove(Handle handle) {
    const npu::WithoutGil release;
    const auto model = models().find(handle);
    {
      const std::lock_guard lock(models().mutex);
      models().all.erase(handle);
    }
    return model->remove(handle);
  }
};

std::unique_ptr<torch::inductor::AOTIModelContainerRunner> create(const std::string& path, size_t models,
                                                                  const std::string& device,
                                                                  const std::string& binaries, const bool one_thread) {
  const c10::DeviceIndex index = index_of(device);
  const npu::WithoutGil release;
  const npu::NPUGuard guard(index);
  return std::make_unique<Runner>(path, models, index, binaries, one_thread);
}

// A program without Python has given the device no name, by which loaders look for it; Python gives it the same one.
const bool named = (c10::register_privateuse1_backend("npu"), true);
const torch::inductor::RegisterAOTIModelRunner registered("npu", &create);

}  // namespace
