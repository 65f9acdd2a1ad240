// See shapes.h.
#include "softnpu/ops/shapes.h"

#include <algorithm>
#include <string>

#include "softnpu/ops/guard.h"
#include "softnpu/ops/kernels.h"

namespace softnpu::ops {

using nnopbase::Arg;
using nnopbase::Kind;
using nnopbase::TensorCopy;

bool fits(Plan& plan, void (*look)(Frame& frame)) try {
  // The plan's arguments as an executor that nobody runs: a frame asks it for nothing else.
  aclOpExecutor seen{};
  seen.nargs = static_cast<uint16_t>(plan.nargs());
  seen.args = const_cast<nnopbase::Arg*>(plan.args());
  const KernelGuard guard(1);
  Frame frame(seen);
  look(frame);
  return true;
} catch (const c10::Error& error) {
  return plan.fail(ACLNN_ERR_PARAM_INVALID, error.what_without_backtrace());
}

bool holds_pairs(const Plan& plan) {
  const auto paired = [](const TensorCopy* t) { return t && t->dtype >= ACL_FLOAT4_E2M1; };
  for (int i = 0; i < plan.nargs(); i++) {
    const Arg& a = plan.args()[i];
    if (a.kind == Kind::kTensor && paired(a.tensor)) return true;
    if (a.kind == Kind::kTensors && std::any_of(a.tensors, a.tensors + a.count, paired)) return true;
  }
  return false;
}

namespace kernels {
namespace {

std::string joined(std::initializer_list<int64_t> numbers) {
  std::string text;
  for (const int64_t n : numbers) text += (text.empty() ? "" : " or ") + std::to_string(n);
  return text;
}

bool fit(IntArrayRef have, IntArrayRef want) {
  return have.size() == want.size() &&
         std::equal(have.begin(), have.end(), want.begin(), [](int64_t h, int64_t w) { return w < 0 || h == w; });
}

}  // namespace

void need_dims(const char* name, const Tensor& t, std::initializer_list<int64_t> counts) {
  TORCH_CHECK(std::find(counts.begin(), counts.end(), t.dim()) != counts.end(), name, " must have ", joined(counts),
              " dimensions, got ", t.dim());
}

void need_sizes(const char* name, const Tensor& t, IntArrayRef sizes) {
  TORCH_CHECK(fit(t.sizes(), sizes), name, " must have sizes ", sizes, ", got ", t.sizes());
}

void need_sizes(const char* name, const OptionalTensor& t, IntArrayRef sizes) {
  if (passed(t)) need_sizes(name, *t, sizes);
}

void need_result(const char* name, const Tensor& t, IntArrayRef sizes) {
  if (t.defined() && t.numel() > 0) need_sizes(name, t, sizes);
}

void need_absent(const char* name, const OptionalTensor& t) {
  TORCH_CHECK_NOT_IMPLEMENTED(!given(t), name, " is not implemented; pass null");
}

void need_word(const char* name, std::string_view word, std::initializer_list<std::string_view> known) {
  std::string text;
  for (const std::string_view k : known) text += (text.empty() ? "" : " or ") + std::string(k);
  TORCH_CHECK_NOT_IMPLEMENTED(std::find(known.begin(), known.end(), word) != known.end(), name, " ", word,
                              " is not implemented; ", text, " is");
}

void need_number(const char* name, int64_t number, std::initializer_list<int64_t> known) {
  TORCH_CHECK_NOT_IMPLEMENTED(std::find(known.begin(), known.end(), number) != known.end(), name, " ", number,
                              " is not implemented; ", joined(known), " is");
}

}  // namespace kernels
}  // namespace softnpu::ops
