// See advance.h.
#include "softnpu/ops/advance.h"

#include <ATen/ops/cat.h>

#include "softnpu/ops/kernels.h"

namespace softnpu::ops::kernels {
namespace {

void check_step(const char* op, const DecodeStep& s, const Tensor& sampled) {
  TORCH_CHECK(s.sequences > 0 && s.queries > 0 && s.queries <= s.sequences && s.block > 0, op, ": numSeqs ",
              s.sequences, ", numQueries ", s.queries, " and blockSize ", s.block);
  TORCH_CHECK(s.tables.dim() == 2 && s.tables.size(0) == s.sequences && s.tables.size(1) > 0, op, ": blockTables is ",
              s.tables.sizes(), " for ", s.sequences, " sequences");
  TORCH_CHECK(sampled.dim() == 2, op, ": sampledTokenIds is ", sampled.sizes(), ", two dimensions are expected");
}

Tensor slots_of(const DecodeStep& s, const Tensor& place) {
  const Tensor column = place.div(s.block, "floor").clamp(0, s.tables.size(1) - 1);
  return s.tables.narrow(0, 0, place.size(0)).gather(1, column) * s.block + place.remainder(s.block);
}

}  // namespace

void advance_step(const Tensor& sampled, const DecodeStep& s) {
  const char* const op = "aclnnAdvanceStep";
  check_step(op, s, sampled);
  TORCH_CHECK(sampled.size(0) == s.queries && sampled.size(1) == 1, op, ": sampledTokenIds is ", sampled.sizes(), ", [",
              s.queries, ", 1] is expected");
  for (const Tensor* t : {&s.tokens, &s.positions, &s.lengths, &s.slots}) {
    TORCH_CHECK(t->numel() == s.sequences, op, ": a tensor of ", t->sizes(), " for ", s.sequences, " sequences");
  }
  const auto rows = [&](const Tensor& t) { return t.flatten().narrow(0, 0, s.queries); };
  const auto write = [&](Tensor& t, const Tensor& value) {
    t.narrow(0, 0, s.queries).copy_(value.reshape(t.narrow(0, 0, s.queries).sizes()));
  };
  const Tensor place = rows(s.lengths).clone();
  write(s.tokens, sampled);
  write(s.positions, place);
  write(s.lengths, place + 1);
  write(s.slots, slots_of(s, place.unsqueeze(1)));
}

void advance_step_guessing(const Tensor& sampled, const Tensor& guesses, const Tensor& accepted, const DecodeStep& s) {
  const char* const op = "aclnnAdvanceStepV2";
  check_step(op, s, sampled);
  TORCH_CHECK(s.queries == s.sequences, op, ": numQueries ", s.queries, " is not numSeqs ", s.sequences);
  const int64_t columns = sampled.size(1);
  TORCH_CHECK(sampled.size(0) == s.sequences && guesses.dim() == 2 && guesses.size(0) == s.sequences &&
                  guesses.size(1) == columns - 1 && accepted.numel() == s.sequences,
              op, ": specToken ", guesses.sizes(), " and acceptedNum ", accepted.sizes(),
              " do not fit sampledTokenIds ", sampled.sizes());
  const int64_t count = s.sequences * columns;
  for (const Tensor* t : {&s.tokens, &s.positions, &s.lengths, &s.slots}) {
    TORCH_CHECK(t->numel() == count, op, ": a tensor of ", t->sizes(), " for ", s.sequences, " sequences of ", columns);
  }
  const Tensor taken = accepted.to(at::kLong).reshape({-1, 1});
  const auto write = [](Tensor& t, const Tensor& value) { t.copy_(value.reshape(t.sizes())); };
  const Tensor place = s.positions.reshape({s.sequences, columns}) + 1 + taken;
  // Behind the guesses that were accepted stands the token that goes on.
  write(s.tokens, at::cat({sampled.gather(1, taken), guesses}, 1));
  write(s.positions, place);
  write(s.lengths, place + 1);
  write(s.slots, slots_of(s, place));
}

}  // namespace softnpu::ops::kernels
