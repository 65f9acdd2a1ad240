// ShapeInfo: what a kernel notes down about a tensor's shape. Nothing here reads it. Carried by LocalTensor and GlobalTensor.
#pragma once

#include <cstdint>

namespace AscendC {

inline constexpr uint32_t K_MAX_SHAPE_DIM = 8;

enum class DataFormat : uint8_t { ND = 0, NZ, NCHW, NC1HWC0, NHWC, NCDHW, NDC1HWC0, FRACTAL_Z_3D };

struct ShapeInfo {
  uint8_t shapeDim = 0, originalShapeDim = 0;
  uint32_t shape[K_MAX_SHAPE_DIM] = {}, originalShape[K_MAX_SHAPE_DIM] = {};
  DataFormat dataFormat = DataFormat::ND;
  ShapeInfo() = default;
  ShapeInfo(uint8_t dim, const uint32_t sizes[], DataFormat format = DataFormat::ND)
      : shapeDim(dim), originalShapeDim(dim), dataFormat(format) {
    for (uint32_t i = 0; i < dim && i < K_MAX_SHAPE_DIM; ++i) shape[i] = originalShape[i] = sizes[i];
  }
};

}  // namespace AscendC
