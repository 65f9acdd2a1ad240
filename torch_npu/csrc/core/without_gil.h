// Without Python's interpreter lock as long as it lives, if the thread holds it: autograd's threads, for which an operator waits, may want it.
//     const WithoutGil release;
// Who calls it: csrc/ops, where an operator asks autograd for a gradient. csrc/python says how the lock is let go and taken.
#pragma once

#include "csrc/cann/export.h"

namespace npu {

class WithoutGil {
 public:
  WithoutGil();
  ~WithoutGil();
  WithoutGil(const WithoutGil&) = delete;
  WithoutGil& operator=(const WithoutGil&) = delete;

 private:
  void* thread_;  // null: the lock was not held
};

// Once, while Python loads the plugin. `release` returns null where the thread does not hold the lock.
NPU_API void set_gil(void* (*release)(), void (*take)(void*));

}  // namespace npu
