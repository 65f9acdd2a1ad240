// See kernel_allocator.h.
#include "softnpu/ops/kernel_allocator.h"

#include <c10/core/CPUAllocator.h>

#include "softnpu/ops/kept_memory.h"
#include "softnpu/ops/place.h"

namespace softnpu::ops {

namespace {

thread_local KernelMemory now;

class KernelAllocator final : public c10::Allocator {
 public:
  explicit KernelAllocator(c10::Allocator* usual) : usual_(usual) { free_usual = usual->raw_deleter(); }

  c10::DataPtr allocate(size_t bytes) override {
    if (!now.running) return usual_->allocate(bytes);
    if (now.place != nullptr) {
      if (void* memory = now.place->take(bytes)) return on_cpu(memory, &leave);
    }
    c10::DataPtr memory;
    if (void* kept = bytes < KeptMemory::kSmallest ? nullptr : KeptMemory::take(bytes)) {
      memory = on_cpu(kept, &give_back);
    } else {
      memory = usual_->allocate(bytes);
    }
    if (now.place != nullptr) now.place->made(bytes, memory.get());
    return memory;
  }
  c10::DeleterFnPtr raw_deleter() const override { return &release; }
  void copy_data(void* to, const void* from, size_t bytes) const override { usual_->copy_data(to, from, bytes); }

 private:
  static c10::DataPtr on_cpu(void* memory, c10::DeleterFnPtr deleter) {
    return {memory, memory, deleter, c10::Device(c10::DeviceType::CPU)};
  }
  static void leave(void*) {}
  static void give_back(void* memory) { KeptMemory::give_back(memory); }
  // For raw_deallocate(), which oneDNN's temporaries use: they go before the Place does.
  static void release(void* memory) {
    if (now.place != nullptr && now.place->owns(memory)) return;
    if (!KeptMemory::give_back(memory)) free_usual(memory);
  }

  c10::Allocator* usual_;
  static inline c10::DeleterFnPtr free_usual = nullptr;
};

// While the library is loaded: before any of its threads can allocate. Kept for the process's life.
[[maybe_unused]] const bool installed = [] {
  c10::SetCPUAllocator(new KernelAllocator(c10::GetCPUAllocator()), /*priority=*/1);
  return true;
}();

}  // namespace

KernelMemory& KernelMemory::of_thread() noexcept { return now; }

}  // namespace softnpu::ops
