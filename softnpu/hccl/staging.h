// A stretch of shareable memory that stands in for a buffer which is not (host memory, mapped pieces of several allocations).
// Taken from a pool of the process: what peers have mapped once is used again.
#pragma once

#include <cstddef>
#include <cstdint>

namespace softnpu::hccl {

struct StagingBlock;

class Staging {
 public:
  Staging() = default;
  ~Staging();
  Staging(const Staging&) = delete;
  // At least `bytes` of memory that peers can ask for by arena().
  void get(size_t bytes);
  explicit operator bool() const { return block_; }
  std::byte* data() const;
  uint64_t arena() const;

 private:
  StagingBlock* block_ = nullptr;
};

}  // namespace softnpu::hccl
