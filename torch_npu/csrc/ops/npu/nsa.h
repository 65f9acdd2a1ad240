// Native sparse attention: keys compressed by windows, attention over them that scores blocks, and attention over the best blocks. Compositions of
// PyTorch's operators in float32; PyTorch derives their gradients. Who uses it: rows of ops/npu.yaml.
#pragma once

#include "csrc/ops/npu/compose.h"

namespace npu::ops {

at::Tensor compressed_keys(const at::Tensor& input, const at::Tensor& weight, int64_t block, int64_t stride,
                           at::OptionalIntArrayRef ends);
Pair compressed_keys_backward(const at::Tensor& grad, const at::Tensor& input, const at::Tensor& weight, int64_t block,
                              int64_t stride, at::OptionalIntArrayRef ends);
// The last window of each sequence that has just filled one, into its row of the cache.
at::Tensor& compressed_into(const at::Tensor& input, const at::Tensor& weight, const at::Tensor& slots, int64_t block,
                            int64_t stride, int64_t page, const OptionalTensor& table, at::OptionalIntArrayRef lengths,
                            const at::Tensor& cache);

struct NsaHeads {
  const at::Tensor &query, &key, &value;
  double scale;
  int64_t heads;
};
struct NsaBlocks {
  int64_t compressed, stride, selected, count;
};
struct NsaEnds {
  at::OptionalIntArrayRef query, compressed, selected;
};
// Out, chosen blocks, largest and sum of the softmax.
std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor> compressed_attention(const NsaHeads& of, const NsaBlocks& b,
                                                                                const OptionalTensor& mask,
                                                                                const NsaEnds& ends);
Triple selected_attention(const NsaHeads& of, const at::Tensor& chosen, int64_t block, int64_t count,
                          at::OptionalIntArrayRef ends, at::OptionalIntArrayRef key_ends);
Triple selected_attention_backward(const at::Tensor& grad, const NsaHeads& of, const at::Tensor& chosen, int64_t block,
                                   int64_t count, at::OptionalIntArrayRef ends, at::OptionalIntArrayRef key_ends);

// Of one query a sequence, over keys in pages.
struct Pages {
  const OptionalTensor& table;
  int64_t page, key_heads;
  std::string_view layout;
  at::OptionalIntArrayRef query_lengths, key_lengths;
};
Pair compressed_decode(const NsaHeads& of, const NsaBlocks& b, const Pages& pages,
                       at::OptionalIntArrayRef selected_lengths);
at::Tensor selected_decode(const NsaHeads& of, const at::Tensor& chosen, int64_t block, int64_t count,
                           const Pages& pages);

}  // namespace npu::ops
