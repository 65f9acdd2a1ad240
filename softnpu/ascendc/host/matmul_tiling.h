// matmul_tiling: the host's tiling of a Matmul object, and of UnPad. What it is not: the vendor's choice of base sizes, which is the chip's
// secret of speed: here they are what fits L0, and the product is the same.
#pragma once

#include <algorithm>
#include <vector>

#include "platform.h"
#include "tiling_data.h"

namespace matmul_tiling {

enum class TPosition {
  GM = 0,
  A1,
  A2,
  B1,
  B2,
  C1,
  C2,
  CO1,
  CO2,
  VECIN,
  VECOUT,
  VECCALC,
  LCM,
  SPM,
  SHM,
  TSCM,
  C2PIPE2GM,
  MAX
};
enum class CubeFormat { ND = 1, NZ, ZN, ZZ, NN, VECTOR, SCALAR, ND_ALIGN };
enum class DataType {
  DT_FLOAT = 0,
  DT_FLOAT16 = 1,
  DT_INT8 = 2,
  DT_INT32 = 3,
  DT_UINT8 = 4,
  DT_INT4 = 29,
  DT_BFLOAT16 = 27,
  DT_BF16 = 27,
};
enum class MatrixTraverse { NOSET = 0, FIRSTM = 1, FIRSTN = 2 };
enum class ScheduleType { INNER_PRODUCT = 0, OUTER_PRODUCT = 1 };
enum class DequantType { SCALAR = 0, TENSOR };

// One core's product, or with SetDim that of several, which share the rows and columns of C.
class MatmulApiTiling {
 public:
  MatmulApiTiling() = default;
  explicit MatmulApiTiling(const platform_ascendc::PlatformAscendC&) {}

  int32_t SetAType(TPosition, CubeFormat, DataType t, bool = false) { return bytes_ = std::max(bytes_, size(t)), 0; }
  int32_t SetBType(TPosition, CubeFormat, DataType t, bool = false) { return bytes_ = std::max(bytes_, size(t)), 0; }
  int32_t SetCType(TPosition, CubeFormat, DataType) { return 0; }
  int32_t SetBiasType(TPosition, CubeFormat, DataType) { return 0; }
  int32_t SetShape(int32_t m, int32_t n, int32_t k) { return m_ = m, n_ = n, k_ = k, 0; }
  int32_t SetOrgShape(int32_t m, int32_t n, int32_t k) {
    return whole_m_ = m, whole_n_ = n, whole_ka_ = whole_kb_ = k, 0;
  }
  int32_t SetOrgShape(int32_t m, int32_t n, int32_t ka, int32_t kb) {
    return whole_m_ = m, whole_n_ = n, whole_ka_ = ka, whole_kb_ = kb, 0;
  }
  int32_t SetSingleShape(int32_t m = -1, int32_t n = -1, int32_t k = -1) {
    return one_m_ = m, one_n_ = n, one_k_ = k, 0;
  }
  int32_t SetBias(bool on = false) { return bias_ = on, 0; }
  int32_t EnableBias(bool on = false) { return SetBias(on); }
  int32_t SetDim(int32_t cores) { return cores_ = std::max(1, cores), 0; }
  int32_t SetFixSplit(int32_t m = -1, int32_t n = -1, int32_t k = -1) {
    return base_m_ = m, base_n_ = n, base_k_ = k, 0;
  }
  // How much of the core's memories the product may take, and in which order: no product depends on it.
  int32_t SetBufferSpace(int32_t = -1, int32_t = -1, int32_t = -1, int32_t = -1) { return 0; }
  int32_t SetTraverse(MatrixTraverse) { return 0; }
  int32_t SetMadType(int32_t) { return 0; }
  int32_t SetDoubleBuffer(bool, bool, bool, bool, bool = true, bool = true) { return 0; }

  int64_t GetTiling(optiling::TCubeTiling& t) {
    const int32_t m = std::max(m_, 1), n = std::max(n_, 1), k = std::max(k_, 1);
    int32_t rows = 1, columns = 1;  // of cores
    for (int32_t r = 1; r <= cores_; ++r)
      if (cores_ % r == 0 && (m + 15) / 16 >= r && (n + 15) / 16 >= cores_ / r) rows = r, columns = cores_ / r;
    if (one_m_ > 0) rows = up(m, one_m_);
    if (one_n_ > 0) columns = up(n, one_n_);
    t.singleCoreM = one_m_ > 0 ? one_m_ : rows == 1 ? m : round16(up(m, rows));
    t.singleCoreN = one_n_ > 0 ? one_n_ : columns == 1 ? n : round16(up(n, columns));
    t.singleCoreK = one_k_ > 0 ? one_k_ : k;
    t.usedCoreNum = up(m, t.singleCoreM) * up(n, t.singleCoreN);
    t.M = whole_m_ > 0 ? whole_m_ : m;
    t.N = whole_n_ > 0 ? whole_n_ : n;
    t.Ka = whole_ka_ > 0 ? whole_ka_ : k;
    t.Kb = whole_kb_ > 0 ? whole_kb_ : k;
    t.baseM = base_m_ > 0 ? base_m_ : std::min(128, round16(t.singleCoreM));
    t.baseN = base_n_ > 0 ? base_n_ : std::min(128, round16(t.singleCoreN));
    const int32_t room = 32 * 1024 / (std::max(t.baseM, t.baseN) * bytes_) / 16 * 16;  // half of L0A and of L0B
    t.baseK = base_k_ > 0 ? base_k_ : std::max(16, std::min(room, round16(t.singleCoreK)));
    t.isBias = bias_;
    t.depthA1 = t.depthB1 = t.stepM = t.stepN = t.stepKa = t.stepKb = t.dbL0A = t.dbL0B = t.dbL0C = 1;
    t.iterateOrder = 0;
    return t.baseM % 16 || t.baseN % 16 || t.baseK < 1 ? -1 : 0;
  }
  int32_t GetSingleShape(int32_t& m, int32_t& n, int32_t& k) {
    optiling::TCubeTiling t;
    const int64_t bad = GetTiling(t);
    m = t.singleCoreM, n = t.singleCoreN, k = t.singleCoreK;
    return static_cast<int32_t>(bad);
  }
  int32_t GetCoreNum(int32_t& all, int32_t& along_m, int32_t& along_n) {
    optiling::TCubeTiling t;
    const int64_t bad = GetTiling(t);
    along_m = up(std::max(m_, 1), t.singleCoreM), along_n = up(std::max(n_, 1), t.singleCoreN), all = along_m * along_n;
    return static_cast<int32_t>(bad);
  }

 private:
  static int32_t up(int32_t a, int32_t b) { return (a + b - 1) / b; }
  static int32_t round16(int32_t a) { return up(a, 16) * 16; }
  static int32_t size(DataType t) {
    return t == DataType::DT_FLOAT || t == DataType::DT_INT32  ? 4
           : t == DataType::DT_INT8 || t == DataType::DT_UINT8 ? 1
                                                               : 2;
  }

  int32_t m_ = 0, n_ = 0, k_ = 0, whole_m_ = 0, whole_n_ = 0, whole_ka_ = 0, whole_kb_ = 0;
  int32_t one_m_ = -1, one_n_ = -1, one_k_ = -1, base_m_ = -1, base_n_ = -1, base_k_ = -1, cores_ = 1, bytes_ = 1;
  bool bias_ = false;
};
using MultiCoreMatmulTiling = MatmulApiTiling;

}  // namespace matmul_tiling

namespace AscendC {
// High-level functions need no room of their own here: any number between these will do.
template <class Shape>
void GetUnPadMaxMinTmpSize(const platform_ascendc::PlatformAscendC&, const Shape& shape, uint32_t type_size,
                           uint32_t& most, uint32_t& least) {
  most = least = static_cast<uint32_t>(shape.GetShapeSize()) * type_size;
}
inline uint32_t GetSortTmpSize(const platform_ascendc::PlatformAscendC&, uint32_t elements, uint32_t type_size) {
  return elements * (type_size < 4 ? 4 : 8);
}
inline uint32_t GetConcatTmpSize(const platform_ascendc::PlatformAscendC&, uint32_t elements, uint32_t type_size) {
  return elements * (type_size < 4 ? 4 : 8);
}
template <class Shape>
void UnPadTilingFunc(const Shape& shape, uint32_t, uint32_t, optiling::UnPadTiling& tiling) {
  tiling.srcHeight = static_cast<uint32_t>(shape.GetDims()[0]);
  tiling.srcWidth = static_cast<uint32_t>(shape.GetDims()[1]);
}
}  // namespace AscendC

namespace ge {
// The shape that the tiling functions of high-level functions are given.
class Shape {
 public:
  Shape() = default;
  explicit Shape(const std::vector<int64_t>& sizes) : sizes_(sizes) {}
  size_t GetDimNum() const { return sizes_.size(); }
  int64_t GetDim(size_t i) const { return i < sizes_.size() ? sizes_[i] : 0; }
  std::vector<int64_t> GetDims() const { return sizes_; }
  int64_t GetShapeSize() const {
    int64_t n = 1;
    for (int64_t s : sizes_) n *= s;
    return n;
  }

 private:
  std::vector<int64_t> sizes_;
};
}  // namespace ge
