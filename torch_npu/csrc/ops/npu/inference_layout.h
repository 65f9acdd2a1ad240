// Sizes of attention's operands by their layout, and which lengths of sequences count. What it is not: a check. Who uses it: inference_sizes.cpp
// and inference_operands.cpp.
#pragma once

#include <algorithm>
#include <string_view>

#include "csrc/ops/npu/sizes.h"

namespace npu::ops::inference {

struct QuerySizes {
  c10::SymInt batch, rows, heads;
};

inline std::string_view operand_layout(std::string_view layout) { return layout.substr(0, layout.find('_')); }
inline bool is_packed(std::string_view layout) { return layout == "TND" || layout == "NTD"; }
QuerySizes query_sizes(const at::Tensor& q, std::string_view layout, int64_t heads);
c10::SymInt value_columns(const at::Tensor& v, std::string_view layout, const OptionalTensor& table, int64_t kv_heads);

// The vendor takes the first ones of a list that is longer than there are sequences.
inline at::IntArrayRef first_lengths(at::IntArrayRef lengths, const c10::SymInt& sequences) {
  const auto count = sequences.maybe_as_int();
  return count ? lengths.slice(0, std::min(lengths.size(), static_cast<size_t>(std::max<int64_t>(*count, 1))))
               : lengths;
}

}  // namespace npu::ops::inference
