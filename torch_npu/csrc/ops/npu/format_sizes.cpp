// See format_sizes.h.
#include "csrc/ops/npu/format_sizes.h"

#include <c10/util/Exception.h>

#include <algorithm>
#include <array>

namespace npu::ops {
namespace {

constexpr int64_t kSide = 16;  // rows of a fractal, channels of a group

int64_t blocks(int64_t count, int64_t of) { return (count + of - 1) / of; }

// CANN's blocks of columns: 32 bytes, but 16 elements where those are wider than a byte.
std::vector<int64_t> nz(c10::IntArrayRef sizes, int64_t columns) {
  std::vector<int64_t> padded(sizes.begin(), sizes.end() - 2);
  const int64_t rows = sizes[sizes.size() - 2], width = sizes.back();
  padded.insert(padded.end(), {blocks(width, columns), blocks(rows, kSide), kSide, columns});
  return padded;
}

// N, C, H, W: fewer dimensions are C, then C and H, then C, H and W; of more, the first four.
std::array<int64_t, 4> picture(c10::IntArrayRef sizes) {
  std::array<int64_t, 4> nchw{1, 1, 1, 1};
  const size_t first = sizes.size() < nchw.size() ? 1 : 0;
  std::copy_n(sizes.begin(), std::min(sizes.size(), nchw.size()), nchw.begin() + first);
  return nchw;
}

std::vector<int64_t> grouped_channels(c10::IntArrayRef sizes, int64_t group) {
  const auto [n, c, h, w] = picture(sizes);
  return {n, blocks(c, group), h, w, group};
}

std::vector<int64_t> fractal_z(c10::IntArrayRef sizes) {
  const auto [n, c, h, w] = picture(sizes);
  return {blocks(c, kSide) * h * w, blocks(n, kSide), kSide, kSide};
}

void need_dimensions(int64_t format, c10::SymIntArrayRef sizes, bool fits, const char* wanted) {
  TORCH_CHECK_VALUE(fits, "a tensor of sizes ", sizes, " has no format ", format, ", which is for ", wanted);
}

}  // namespace

aclFormat checked_format(int64_t format, c10::SymIntArrayRef sizes) {
  switch (format) {
    case ACL_FORMAT_UNDEFINED:
    case ACL_FORMAT_NCHW:
    case ACL_FORMAT_NHWC:
    case ACL_FORMAT_ND:
    case ACL_FORMAT_FRACTAL_Z:
    case ACL_FORMAT_HWCN:
    case ACL_FORMAT_NCDHW:
    case ACL_FORMAT_NC:
    case ACL_FORMAT_NCL:
      break;
    case ACL_FORMAT_NC1HWC0:
    case ACL_FORMAT_NC1HWC0_C04:
      need_dimensions(format, sizes, sizes.size() <= 4, "four dimensions at most");
      break;
    case ACL_FORMAT_NDHWC:
    case ACL_FORMAT_NDC1HWC0:
    case ACL_FRACTAL_Z_3D:
      need_dimensions(format, sizes, sizes.size() == 5, "five dimensions");
      break;
    case ACL_FORMAT_FRACTAL_NZ:
    case ACL_FORMAT_FRACTAL_NZ_C0_16:
    case ACL_FORMAT_FRACTAL_NZ_C0_32:
    case ACL_FORMAT_FRACTAL_NZ_C0_2:
    case ACL_FORMAT_FRACTAL_NZ_C0_4:
    case ACL_FORMAT_FRACTAL_NZ_C0_8:
      if (sizes.size() < 2) return ACL_FORMAT_ND;
      break;
    default:
      TORCH_CHECK_VALUE(false, "there is no acl_format ", format, "; torch_npu.Format has UNDEFINED (",
                        ACL_FORMAT_UNDEFINED,
                        "), NCHW (0), NHWC (1), ND (2), NC1HWC0 (3), FRACTAL_Z (4), FRACTAL_NZ (29) and the rest");
  }
  return static_cast<aclFormat>(format);
}

std::vector<int64_t> padded_sizes(aclFormat format, c10::IntArrayRef sizes, size_t itemsize) {
  switch (format) {
    case ACL_FORMAT_NC1HWC0:
      return grouped_channels(sizes, kSide);
    case ACL_FORMAT_NC1HWC0_C04:
      return grouped_channels(sizes, 4);
    case ACL_FORMAT_FRACTAL_Z:
      return fractal_z(sizes);
    case ACL_FORMAT_NDC1HWC0:
      return {sizes[0], sizes[2], blocks(sizes[1], kSide), sizes[3], sizes[4], kSide};
    case ACL_FRACTAL_Z_3D:
      return {sizes[2] * blocks(sizes[1], kSide) * sizes[3] * sizes[4], blocks(sizes[0], kSide), kSide, kSide};
    case ACL_FORMAT_FRACTAL_NZ:
      return nz(sizes, itemsize == 1 ? 32 : kSide);
    case ACL_FORMAT_FRACTAL_NZ_C0_16:
      return nz(sizes, 16);
    case ACL_FORMAT_FRACTAL_NZ_C0_32:
      return nz(sizes, 32);
    case ACL_FORMAT_FRACTAL_NZ_C0_2:
      return nz(sizes, 2);
    case ACL_FORMAT_FRACTAL_NZ_C0_4:
      return nz(sizes, 4);
    case ACL_FORMAT_FRACTAL_NZ_C0_8:
      return nz(sizes, 8);
    default:
      return sizes.vec();
  }
}

}  // namespace npu::ops
