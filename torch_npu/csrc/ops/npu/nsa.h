// Native sparse attention: keys compressed by windows, attention over them that scores blocks, and attention over the best blocks. Checks of
// arguments, and sizes; the device computes. Who uses it: rows of ops/npu.yaml.
#pragma once

#include "csrc/ops/npu/compose.h"

namespace npu::ops {

Result compressed_keys(const at::Tensor& input, const at::Tensor& weight, int64_t block, int64_t stride,
                       at::OptionalIntArrayRef ends);
void check_compressed_keys_backward(const at::Tensor& grad, const at::Tensor& input, const at::Tensor& weight,
                                    int64_t block, int64_t stride, at::OptionalIntArrayRef ends);
void check_compressed_into(const at::Tensor& input, const at::Tensor& weight, const at::Tensor& slots, int64_t block,
                           int64_t stride, int64_t page, const OptionalTensor& table, at::OptionalIntArrayRef lengths,
                           const at::Tensor& cache);

struct NsaHeads {
  const at::Tensor &query, &key, &value;
  int64_t heads;
};
struct NsaBlocks {
  int64_t compressed, stride, selected, count;
};
struct NsaEnds {
  at::OptionalIntArrayRef query, compressed, selected;
};
void check_compressed_attention(const NsaHeads& of, const NsaBlocks& b, const OptionalTensor& mask,
                                const NsaEnds& ends);
void check_selected_attention(const char* op, const NsaHeads& of, const at::Tensor& chosen, int64_t block,
                              int64_t count, at::OptionalIntArrayRef ends, at::OptionalIntArrayRef key_ends);
void check_selected_gradient(const NsaHeads& of, const at::Tensor& grad, const at::Tensor& largest,
                             const at::Tensor& sum);

// Of one query a sequence, over keys in pages.
struct Pages {
  const OptionalTensor& table;
  int64_t page, key_heads;
  std::string_view layout;
  at::OptionalIntArrayRef query_lengths, key_lengths;
};
void check_compressed_decode(const NsaHeads& of, const NsaBlocks& b, const Pages& pages,
                             at::OptionalIntArrayRef selected_lengths);
void check_selected_decode(const NsaHeads& of, const at::Tensor& chosen, int64_t block, int64_t count,
                           const Pages& pages);
Sizes decoded(const at::Tensor& query, const at::Tensor& value, int64_t key_heads);
Sizes decoded_blocks(const at::Tensor& query, int64_t key_heads, int64_t count);

}  // namespace npu::ops
