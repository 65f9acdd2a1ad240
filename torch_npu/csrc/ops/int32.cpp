// See int32.h.
#include "csrc/ops/int32.h"

#include <limits>

namespace npu {
namespace {

constexpr int64_t kLeast = std::numeric_limits<int32_t>::min(), kMost = std::numeric_limits<int32_t>::max();

bool fits(const at::Tensor& numbers, int64_t end) { return numbers.scalar_type() == at::kLong && end <= kMost; }

}  // namespace

at::Tensor in_int32(const at::Tensor& numbers, int64_t end) {
  return fits(numbers, end) ? numbers.clamp(kLeast, kMost).to(at::kInt) : numbers;
}

at::Tensor room_in_int32(const at::Tensor& result, int64_t end) {
  return fits(result, end) ? result.new_empty(result.sizes(), result.options().dtype(at::kInt)) : result;
}

}  // namespace npu
