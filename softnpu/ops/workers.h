// Attention and experts on workers of their own: what a schedule context (1024 bytes, pages of aclnnAttentionWorkerCombine and its like)
// says of tokens that other workers put into this one's memory, and what is computed of them. Who calls it: expressions of ops/aclnn.yaml
// that name it as their header; check_… in phase one. What it is not: the sending (aclnnAttentionToFFN), whose place in a peer's memory no
// page says.
//
// Where pages say nothing or two things: a token takes as many bytes as the context's token size says, or, where that is less than a token,
// the next multiple of 512; who waits for tokens also takes their marks down; expertOffsets are the places among a token's experts, which
// aclnnFFNToAttention takes by that name.
#pragma once

#include <ATen/core/Tensor.h>

namespace softnpu::ops::kernels {

void check_context(const at::Tensor& context);

// Waits until all flags of the micro batch after the last ready one are 1 or the context's run flag is 0; takes them down, and that micro
// batch is the last ready one.
void attention_scheduler(const at::Tensor& context);

// Waits until the sessions have marked a micro batch, and writes their layers, session numbers, micro batches and experts into the context's
// lists. In one group: the context's next micro batch (polling_index) of all sessions. In several: of each group whose sessions have all
// marked one micro batch, that one, the lowest.
void check_ffn_scheduler(const at::Tensor& context, int64_t group_size, int64_t mode);
void ffn_scheduler(const at::Tensor& context, int64_t group_size);

// y[t] = sum over k of scales[t, k] * token [t, k] of the last ready micro batch, in fp32; `wait`: attention_scheduler first.
void check_combine(const at::Tensor& context, const at::Tensor& scales, const at::Tensor& layer, int64_t columns,
                   int64_t type, int64_t wait, const at::Tensor& y, const at::Tensor& next);
void combine(const at::Tensor& context, const at::Tensor& scales, const at::Tensor& layer, int64_t wait, at::Tensor& y,
             at::Tensor& next);

// The tokens of the sessions in the context's lists by expert, in each expert in the order of sessions, tokens and choices.
struct Batch {
  at::Tensor &y, &groups, &sessions, &micro_batches, &tokens, &offsets, &scale, &count;
};
void check_batching(const at::Tensor& context, int64_t experts, at::IntArrayRef most, int64_t type, int64_t wait,
                    int64_t layers, const Batch& out);
void batching(const at::Tensor& context, int64_t experts, at::IntArrayRef most, int64_t type, int64_t wait,
              int64_t layers, Batch& out);

}  // namespace softnpu::ops::kernels
