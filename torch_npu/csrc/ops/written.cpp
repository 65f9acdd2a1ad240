// PyTorch's errors of tensors that are written, and stand-ins for lazy ones.
#include "csrc/ops/written.h"

#include <ATen/MemoryOverlap.h>

#include "csrc/core/device.h"
#include "csrc/ops/storage.h"

namespace npu::detail {

bool is_lazy(const at::Tensor& tensor) { return tensor.is_conj() || tensor.is_neg(); }

void check_written(const at::Tensor& tensor, bool may_repeat) {
  TORCH_CHECK(tensor.is_privateuseone(),
              "Expected all tensors to be on the same device, but found at least two devices, ",
              "npu:", static_cast<int>(current_device()), " and ", tensor.device(), "!");
  if (!may_repeat) at::assert_no_internal_overlap(tensor);
}

void check_shared(const at::Tensor& written, const at::Tensor& read) { at::assert_no_partial_overlap(written, read); }

void check_written_in_list(const at::Tensor& tensor) {
  check_written(tensor, false);
  TORCH_CHECK_NOT_IMPLEMENTED(!is_lazy(tensor),
                              "npu: a list of outputs cannot hold a lazy conjugation or negation; resolve_conj() and "
                              "resolve_neg() make a tensor of its own");
}

bool check_all(const Checked* begin, const Checked* end) {
  for (const Checked* out = begin; out != end; out++) {
    if (!out->written || !out->first) continue;
    if (out->list) {
      for (const at::Tensor& tensor : at::TensorList(out->first, out->count)) {
        if (tensor.defined() && C10_UNLIKELY(!plainly_written(tensor))) check_written_in_list(tensor);
      }
      continue;
    }
    const at::Tensor& written = *out->first;
    if (!written.defined()) continue;
    if (C10_UNLIKELY(!plainly_written(written))) {
      check_written(written, out->repeated);
      if (is_lazy(written)) return false;
    }
    for (const Checked* other = begin; other != end; other++) {
      if (other->written) continue;
      for (const at::Tensor& read : at::TensorList(other->first, other->count)) {
        if (C10_UNLIKELY(may_share(written, read))) check_shared(written, read);
      }
    }
  }
  return true;
}

at::Tensor stand_in_for(const at::Tensor& tensor) { return tensor.resolve_conj().resolve_neg(); }

void write_back(const at::Tensor& tensor, const at::Tensor& stand_in) { tensor.copy_(stand_in); }

}  // namespace npu::detail
