// Private formats of CANN. Memory stays ND whatever is asked for: the tag lies beside the tensor and is reported, so that programs that ask
// for FRACTAL_NZ weights run unchanged. A view of a tensor has no tag of its own: it is ND.
#include <ATen/core/Tensor.h>

#include "csrc/ops/npu/compose.h"
#include "npu_ops.h"

namespace npu::ops {
namespace {

constexpr int64_t kNd = 2;

struct Format final : c10::BackendMeta {
  explicit Format(int64_t f) : format(f) {}
  int64_t format;
};

const Format* tag_of(const at::Tensor& tensor) {
  return dynamic_cast<const Format*>(tensor.unsafeGetTensorImpl()->get_backend_meta());
}

void tag(const at::Tensor& tensor, int64_t format) {
  // undefined, NCHW, NHWC, ND, NC1HWC0, FRACTAL_Z, NC1HWC0_C04, HWCN, NDHWC, FRACTAL_NZ, NCDHW, NDC1HWC0, FRACTAL_Z_3D, NC, NCL,
  // FRACTAL_NZ_C0_16, _32, _2, _4, _8
  for (const int64_t known : {-1, 0, 1, 2, 3, 4, 12, 16, 27, 29, 30, 32, 33, 35, 47, 50, 51, 52, 53, 54}) {
    if (format == known) {
      tensor.unsafeGetTensorImpl()->set_backend_meta(c10::make_intrusive<Format>(format));
      return;
    }
  }
  TORCH_CHECK_VALUE(false, "npu_format_cast: there is no format ", format,
                    "; torch_npu knows ND (2), FRACTAL_NZ (29) and others");
}

at::Tensor cast(const at::Tensor& input, int64_t format, std::optional<int64_t> dtype) {
  TORCH_CHECK_NOT_IMPLEMENTED(!dtype, "npu_format_cast: customize_dtype is not implemented");
  at::Tensor out = input.clone(at::MemoryFormat::Contiguous);
  tag(out, format);
  return out;
}

// It names a type that torch has no dtype for (float4, hifloat8), whose bytes the tensor holds.
void refuse_input_dtype(std::optional<int64_t> input_dtype) {
  TORCH_CHECK_NOT_IMPLEMENTED(!input_dtype, "npu_format_cast: input_dtype is not implemented");
}

}  // namespace

int64_t format_of(const at::Tensor& tensor) {
  const Format* meta = tag_of(tensor);
  return meta ? meta->format : kNd;
}

int64_t storage_elements(const at::Tensor& tensor) {
  return static_cast<int64_t>(tensor.storage().nbytes() / tensor.element_size());
}

namespace kernels {

at::Tensor format_cast(const at::Tensor& input, int64_t acl_format, std::optional<int64_t> customize_dtype,
                       std::optional<int64_t> input_dtype) {
  refuse_input_dtype(input_dtype);
  return cast(input, acl_format, customize_dtype);
}
at::Tensor format_cast_like(const at::Tensor& input, const at::Tensor& dst, std::optional<int64_t> customize_dtype,
                            std::optional<int64_t> input_dtype) {
  refuse_input_dtype(input_dtype);
  return cast(input, format_of(dst), customize_dtype);
}
at::Tensor format_cast_plain(const at::Tensor& input, int64_t acl_format) {
  return cast(input, acl_format, std::nullopt);
}

at::Tensor& format_cast_(at::Tensor& input, int64_t acl_format, std::optional<int64_t> customize_dtype,
                         std::optional<int64_t> input_dtype) {
  refuse_input_dtype(input_dtype);
  TORCH_CHECK_NOT_IMPLEMENTED(!customize_dtype, "npu_format_cast_: customize_dtype is not implemented");
  tag(input, acl_format);
  return input;
}
at::Tensor& format_cast_like_(at::Tensor& input, const at::Tensor& src, std::optional<int64_t> customize_dtype,
                              std::optional<int64_t> input_dtype) {
  return format_cast_(input, format_of(src), customize_dtype, input_dtype).copy_(src);
}
at::Tensor& format_cast__meta(at::Tensor& input, int64_t, std::optional<int64_t>, std::optional<int64_t>) {
  return input;
}
at::Tensor& format_cast_like__meta(at::Tensor& input, const at::Tensor&, std::optional<int64_t>,
                                   std::optional<int64_t>) {
  return input;
}

}  // namespace kernels
}  // namespace npu::ops
