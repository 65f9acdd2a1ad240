#include "csrc/core/without_gil.h"

namespace npu {
namespace {

void* (*release_gil)() = nullptr;
void (*take_gil)(void*) = nullptr;

}  // namespace

WithoutGil::WithoutGil() : thread_(release_gil ? release_gil() : nullptr) {}
WithoutGil::~WithoutGil() {
  if (thread_) take_gil(thread_);
}

void set_gil(void* (*release)(), void (*take)(void*)) {
  release_gil = release;
  take_gil = take;
}

}  // namespace npu
