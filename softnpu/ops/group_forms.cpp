// See group_forms.h.
#include "softnpu/ops/group_forms.h"

#include "softnpu/ops/kernels.h"

namespace softnpu::ops::kernels {

void refuse_operands(const RefusedOperands& refused) {
  for (const at::TensorList list : {refused.offset, refused.scale, refused.zero}) {
    for (const Tensor& t : list) {
      TORCH_CHECK_NOT_IMPLEMENTED(!t.defined() || t.numel() == 0,
                                  "offset, antiquantScale and antiquantOffset are not implemented");
    }
  }
  TORCH_CHECK_NOT_IMPLEMENTED(refused.block == 0, "quantGroupSize ", refused.block, " is not implemented; it is 0");
}

void grouped_matmul_ends(at::TensorList x, at::TensorList weight, at::TensorList bias, at::TensorList scale,
                         IntArrayRef ends, int64_t split, at::TensorList out) {
  const char* const op = "aclnnGroupedMatmul";
  TORCH_CHECK(split >= 0 && split <= 3, op, ": splitItem ", split, " is not 0 to 3");
  TORCH_CHECK(split < 2 || out.size() == 1, op, ": splitItem ", split, " makes one result, there are ", out.size());
  TORCH_CHECK(ends.empty() || x.size() == 1, op, ": a groupList goes with one x, there are ", x.size());
  const size_t groups = ends.empty() ? x.size() : ends.size();
  TORCH_CHECK(split > 1 || out.size() == groups, op, ": splitItem ", split, " makes ", groups, " results, there are ",
              out.size());
  Groups named;
  if (!ends.empty()) {
    Tensor list = at::empty({static_cast<int64_t>(ends.size())}, at::kLong);
    std::copy(ends.begin(), ends.end(), list.data_ptr<int64_t>());
    named.list = list;
    named.type = 0;
  }
  grouped_matmul(x, weight, bias, scale, {}, named, out);
}

}  // namespace softnpu::ops::kernels
