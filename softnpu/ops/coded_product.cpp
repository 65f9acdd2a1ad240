// See group_product.h: sums of products that cross the group as 8-bit codes.
#include "softnpu/ops/group_product.h"
#include "softnpu/ops/kernels.h"

namespace softnpu::ops::kernels {

void need_codes(const Factors& f, const Codes& coding) {
  TORCH_CHECK(given(coding.first) == given(coding.second), "commQuantScale1 and commQuantScale2 are given together");
  for (const Maybe* t : {&coding.first, &coding.second}) {
    TORCH_CHECK(!given(*t) || f.a.scalar_type() == at::kChar, "commQuantScale1 and commQuantScale2 go with int8");
    TORCH_CHECK(!given(*t) || (*t)->numel() == f.columns(), "commQuantScale1 and commQuantScale2 have ", f.columns(),
                " numbers, one a column");
  }
}

std::vector<int64_t> codes_of(const Codes& scales, const at::Tensor& out) {
  return given(scales.first) ? out.sizes().vec() : std::vector<int64_t>{0};
}

void coded_product(const Factors& f, const Codes& coding, at::Tensor codes, at::Tensor out) {
  if (!given(coding.first)) return product(f, out);
  at::Tensor value = at::empty(out.sizes(), out.options().dtype(at::kDouble));
  product(f, value);
  put(codes, value.div_(coding.first->flatten().to(at::kDouble)).round_().clamp_(-128, 127));
}

void sum_of_codes(const Peers& peers, const Codes& coding, const at::Tensor& codes, const at::Tensor& out) {
  given(coding.first) ? peers.all_reduce(codes, codes) : peers.all_reduce(out, out);
}

void decode(const Codes& coding, const at::Tensor& codes, at::Tensor out) {
  if (!given(coding.first)) return;
  const at::Tensor first = coding.first->flatten().to(at::kDouble), second = coding.second->flatten().to(at::kDouble);
  put(out, codes.to(at::kDouble).mul_(first / second).round_().clamp_(-128, 127).mul_(second));
}

}  // namespace softnpu::ops::kernels
