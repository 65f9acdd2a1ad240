// What libmspti tells between begin and end: buffers of records. What it is not: their meaning for PyTorch (kineto.cpp).
// libmspti has one subscriber, so a process has one recording at a time.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "csrc/cann/mspti.h"

namespace npu::profiler {

class Recording {
 public:
  Recording() = default;
  Recording(const Recording&) = delete;
  ~Recording() { end(); }

  // What stands in the way, or "". Never throws.
  std::string begin() noexcept;
  // Tasks that have not run by now are not in it.
  void end() noexcept;
  // Were there records that no memory was found for, or that libmspti could not give?
  bool lost() const noexcept { return lost_; }

  // In the order they came.
  template <class Visit>
  void each(Visit&& visit) const {
    for (const Buffer& b : buffers_) {
      msptiActivity* record = nullptr;
      while (cann::mspti().msptiActivityGetNextRecord(b.bytes.get(), b.used, &record) == MSPTI_SUCCESS) visit(*record);
    }
  }

 private:
  struct Buffer {
    std::unique_ptr<uint8_t[]> bytes;
    size_t used;
  };
  static void request(uint8_t** buffer, size_t* size, size_t* most);
  static void complete(uint8_t* buffer, size_t size, size_t used);

  msptiSubscriberHandle subscriber_ = nullptr;
  std::vector<Buffer> buffers_;
  bool lost_ = false;
};

// The kind of numbers by which libmspti ties a call to the operator that made it.
inline constexpr msptiExternalCorrelationKind kOperators = MSPTI_EXTERNAL_CORRELATION_KIND_CUSTOM0;
// The operator whose work the calling thread submits from now on.
void push_operator(uint64_t id) noexcept;
void pop_operator() noexcept;

}  // namespace npu::profiler
