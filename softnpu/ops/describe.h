// What the record of a kernel says of its tensors (runtime/trace.h). Who calls it: this room registers it; the runtime calls it while
// somebody listens. What it is not: the log of calls (call_log.cpp).
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "softnpu/race/accesses.h"

struct aclOpExecutor;  // nnopbase/executor.h

namespace softnpu::trace {
struct Description;
}

namespace softnpu::ops {

// `state` is the executor of a task. Throws bad_alloc.
void describe_task(const void* state, trace::Description& description);

// What an error says. What is too long is cut off: an error for want of memory must not ask for some.
class Message {
 public:
  [[gnu::format(printf, 2, 3)]] void add(const char* format, ...) noexcept;
  void add_inputs(const aclOpExecutor& e) noexcept;  // " (inputs: FLOAT[10,4], INT64[2])", what the kernel was given
  const char* text() const { return text_; }

 private:
  char text_[800] = "";
  size_t length_ = 0;
};

// A kernel's own words begin with the operator's name where kernels share them; whoever says the name leaves it out.
inline const char* without_name(std::string_view name, const char* text) {
  const std::string_view all = text;
  return all.starts_with(name) && all.substr(name.size()).starts_with(": ") ? text + name.size() + 2 : text;
}

// What the kernel reads and writes, for the race detector and the memory checker.
void tell_task(const void* state, race::Accesses& accesses);

// Of which parameters that operator reads only what an index, a mask or a length says, a bit each: `reads` of ops/aclnn.yaml.
uint64_t reads_some(std::string_view name);

}  // namespace softnpu::ops
