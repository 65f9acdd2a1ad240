// The cube core's instructions: DataCopy to L1 (ND to NZ) and to the bias table, LoadData (fractals to L0A and L0B), Mmad, Fixpipe.
// What it is not: the Matmul object (matmul.h); Load3D, sparse and 4 bit matrices. Called by kernels. Fractals are 512 bytes: 16 rows of
// 32. L0A has them row after row (ZZ), L0B row after row with columns inside (ZN), L0C column after column (NZ), 16 x 16 numbers each.
#pragma once

#include "ascendc/copy.h"

namespace AscendC {

struct Nd2NzParams {
  uint16_t ndNum = 0, nValue = 0, dValue = 0, srcNdMatrixStride = 0, srcDValue = 0, dstNzC0Stride = 0, dstNzNStride = 0,
           dstNzMatrixStride = 0;
  Nd2NzParams() = default;
  Nd2NzParams(uint16_t nd, uint16_t n, uint16_t d, uint16_t src_matrix, uint16_t src_d, uint16_t c0, uint16_t dst_n,
              uint16_t dst_matrix)
      : ndNum(nd),
        nValue(n),
        dValue(d),
        srcNdMatrixStride(src_matrix),
        srcDValue(src_d),
        dstNzC0Stride(c0),
        dstNzNStride(dst_n),
        dstNzMatrixStride(dst_matrix) {}
};

struct LoadData2DParams {
  uint16_t startIndex = 0;
  uint8_t repeatTimes = 0;
  uint16_t srcStride = 0;
  uint8_t sid = 0;
  uint16_t dstGap = 0;
  bool ifTranspose = false;
  uint8_t addrMode = 0;
  LoadData2DParams() = default;
  LoadData2DParams(uint16_t start, uint8_t repeats, uint16_t src, uint8_t id, uint16_t gap, bool transpose,
                   uint8_t mode)
      : startIndex(start),
        repeatTimes(repeats),
        srcStride(src),
        sid(id),
        dstGap(gap),
        ifTranspose(transpose),
        addrMode(mode) {}
};

struct MmadParams {
  uint16_t m = 0, n = 0, k = 0;
  bool isBias = false;
  int32_t fmOffset = 0;
  bool enSsparse = false, enWinogradA = false, enWinogradB = false;
  uint8_t unitFlag = 0;
  bool kDirectionAlign = false, cmatrixSource = false, cmatrixInitVal = true;
  MmadParams() = default;
  MmadParams(uint16_t rows, uint16_t columns, uint16_t inner, bool add = false)
      : m(rows), n(columns), k(inner), isBias(add) {}
  MmadParams(uint16_t rows, uint16_t columns, uint16_t inner, uint8_t unit, bool source, bool zero)
      : m(rows), n(columns), k(inner), unitFlag(unit), cmatrixSource(source), cmatrixInitVal(zero) {}
};

enum class CO2Layout : uint8_t { NZ = 0, ROW_MAJOR, COLUMN_MAJOR };
struct FixpipeConfig {
  CO2Layout format = CO2Layout::ROW_MAJOR;
};
inline constexpr FixpipeConfig CFG_NZ = {CO2Layout::NZ}, CFG_ROW_MAJOR = {CO2Layout::ROW_MAJOR},
                               CFG_COLUMN_MAJOR = {CO2Layout::COLUMN_MAJOR};

}  // namespace AscendC

enum QuantMode_t {
  NoQuant = 0,
  F322F16 = 1,
  VREQ8 = 8,
  REQ8 = 9,
  VDEQF16 = 10,
  DEQF16 = 11,
  F322BF16 = 16,
  VQF322B8_PRE = 23,
  QF322B8_PRE = 24,
};

namespace AscendC {

struct FixpipeParamsV220 {
  uint16_t nSize = 0, mSize = 0, srcStride = 0;
  uint32_t dstStride = 0;
  QuantMode_t quantPre = NoQuant;
  uint64_t deqScalar = 0;
  uint16_t ndNum = 1, srcNdStride = 0, dstNdStride = 0;
  bool reluEn = false;
  uint8_t unitFlag = 0;
  bool isChannelSplit = false;
  FixpipeParamsV220() = default;
  FixpipeParamsV220(uint16_t n, uint16_t m, uint16_t src, uint32_t dst, bool relu)
      : nSize(n), mSize(m), srcStride(src), dstStride(dst), reluEn(relu) {}
};

namespace detail {

#define ASCENDC_CUBE_ARCHITECTURE(Name)                      \
  static_assert(__NPU_ARCH__ == 2201 || detail::never_of<T>, \
                #Name ": the software NPU has the cube core of dav-2201 alone (A2, A3)")
template <class T>
inline constexpr bool never_of = false;

template <class T>
void need_position(const Op& op, const LocalTensor<T>& t, bool good, const char* which, const char* wanted) {
  if (!good) op.fail(format("%s is in %s: it must be in %s", which, position_name(t.GetPosition()), wanted));
}

template <class T>
inline constexpr uint32_t c0 = 32 / sizeof(T);

// Fractals one after the other, or with gaps, from memory that is checked already.
template <class T>
void load_fractals(const Op& op, const LocalTensor<T>& dst, const uint8_t* from, const LoadData2DParams& p) {
  if (p.addrMode != 0) op.fail("addrMode 1 (addresses that go down) is not supported");
  if (p.ifTranspose && sizeof(T) != 2)
    op.fail("ifTranspose is for types of 16 bits: LoadDataWithTranspose is not supported");
  if (p.repeatTimes == 0) return;
  const uint64_t step = (uint64_t{p.dstGap} + 1) * 512;
  auto* to = reinterpret_cast<uint8_t*>(op.writes(dst, (p.repeatTimes - 1) * step + 512, "dst",
                                                  space_of(dst.GetPosition()) == kL1 ? 32 : 512,
                                                  Strided{p.repeatTimes, 512, step}));
  for (uint32_t r = 0; r < p.repeatTimes; ++r) {
    const uint8_t* fractal = from + (p.startIndex + uint64_t{r} * p.srcStride) * 512;
    if (!p.ifTranspose) {
      memcpy(to + r * step, fractal, 512);
      continue;
    }
    const auto* a = reinterpret_cast<const uint16_t*>(fractal);
    auto* b = reinterpret_cast<uint16_t*>(to + r * step);
    for (int i = 0; i < 16; ++i)
      for (int j = 0; j < 16; ++j) b[j * 16 + i] = a[i * 16 + j];
  }
}
inline uint64_t fractal_span(const LoadData2DParams& p) {
  return p.repeatTimes ? (p.startIndex + uint64_t{p.srcStride} * (p.repeatTimes - 1u) + 1) * 512 : 0;
}

template <class A, class B, class C>
inline constexpr bool multipliable =
    (std::is_same_v<A, B> && one_of<A, half, bfloat16_t, float> && std::is_same_v<C, float>) ||
    (std::is_same_v<A, int8_t> && std::is_same_v<B, int8_t> && std::is_same_v<C, int32_t>);

// C (NZ) += A (ZZ; of one row: plain) * B (ZN). bias: a row of n numbers to begin with, or null.
template <class C, class A, class B>
void multiply(C* c, const A* a, const B* b, const C* bias, bool add, uint32_t m, uint32_t n, uint32_t k) {
  constexpr uint32_t kA = c0<A>;
  const uint32_t m1 = (m + 15) / 16, n1 = (n + 15) / 16, k1 = (k + kA - 1) / kA;
  std::vector<C> rows(size_t{k} * n), sums(n);
  for (uint32_t l = 0; l < k; ++l)
    for (uint32_t j = 0; j < n; ++j)
      rows[size_t{l} * n + j] = static_cast<C>(b[((l / kA) * n1 + j / 16) * 16 * kA + j % 16 * kA + l % kA]);
  for (uint32_t i = 0; i < m; ++i) {
    C* to = c + i / 16 * 256 + i % 16 * 16;
    for (uint32_t j = 0; j < n; ++j) sums[j] = bias ? bias[j] : add ? to[size_t{j / 16} * m1 * 256 + j % 16] : C(0);
    for (uint32_t l = 0; l < k; ++l) {
      const C x = static_cast<C>(m == 1 ? a[l] : a[((i / 16) * k1 + l / kA) * 16 * kA + i % 16 * kA + l % kA]);
      const C* row = rows.data() + size_t{l} * n;
      for (uint32_t j = 0; j < n; ++j) sums[j] += x * row[j];
    }
    for (uint32_t j = 0; j < n; ++j) to[size_t{j / 16} * m1 * 256 + j % 16] = sums[j];
  }
}

template <class C, class A, class B, class V>
void mmad(const LocalTensor<C>& dst, const LocalTensor<A>& fm, const LocalTensor<B>& filter, const LocalTensor<V>* bias,
          const MmadParams& p, Site at) {
  static_assert(multipliable<A, B, C>,
                "Mmad takes half, bfloat16_t or float with a result of float, int8_t with a result of int32_t");
  const Op op("Mmad", at, kMatrix);
  if (p.m > 4095 || p.n > 4095 || p.k > 4095) op.fail(format("m %u, n %u, k %u: each is at most 4095", p.m, p.n, p.k));
  need_position(op, fm, fm.GetPosition() == TPosition::A2, "fm", "A2");
  need_position(op, filter, filter.GetPosition() == TPosition::B2, "filter", "B2");
  need_position(op, dst, dst.GetPosition() == TPosition::CO1, "dst", "CO1");
  if (p.m == 0 || p.n == 0 || p.k == 0) return;
  const uint64_t m1 = (p.m + 15u) / 16, n1 = (p.n + 15u) / 16, k1 = (p.k + c0<A> - 1u) / c0<A>;
  const A* a = op.reads(fm, p.m == 1 ? k1 * 32 : m1 * k1 * 512, "fm", 512);
  const B* b = op.reads(filter, k1 * n1 * 512, "filter", 512);
  const bool add = p.isBias || !p.cmatrixInitVal;
  const C* first = nullptr;
  if constexpr (!std::is_void_v<V>) {
    if (bias) {
      need_position(op, *bias, bias->GetPosition() == TPosition::C2, "bias", "C2");
      static_assert(std::is_same_v<V, C>, "Mmad: bias has the type of the result");
      first = op.reads(*bias, n1 * 64, "bias", 64);
    }
  }
  if (!first && add && p.cmatrixSource)
    op.fail("cmatrixSource says that C begins with the bias table: give the bias tensor");
  if (add && !first) op.reads(dst, m1 * n1 * 1024, "dst", 64);
  multiply(op.writes(dst, m1 * n1 * 1024, "dst", 64), a, b, first, add, p.m, p.n, p.k);
}

// deqScalar as the chip reads it: the upper 19 bits of a float, and in bits 37 to 45 an offset with a sign.
struct Quantization {
  explicit Quantization(uint64_t bits)
      : scale(std::bit_cast<float>(static_cast<uint32_t>(bits) & 0xffffe000u)),
        offset(static_cast<int32_t>((bits >> 37 & 0x1ff) ^ 0x100) - 0x100) {}
  float scale;
  int32_t offset;
};

// A number of L0C as it leaves.
template <class D, class S>
D leaving(const Op& op, S x, const FixpipeParamsV220& p, Quantization q) {
  if (p.reluEn && x < S(0)) x = S(0);
  (void)op;
  if constexpr (std::is_same_v<D, S>)
    return x;
  else if constexpr (std::is_same_v<D, int8_t>)
    return saturated<int8_t>(static_cast<int32_t>(to_integral<RoundMode::CAST_RINT>(
                                 std::clamp(static_cast<float>(x) * q.scale, -256.0f, 255.0f))) +
                             q.offset);
  else if constexpr (std::is_same_v<S, int32_t>)
    return static_cast<D>(static_cast<float>(x) * q.scale);
  else
    return static_cast<D>(x);
}
template <class D, class S>
constexpr QuantMode_t quantization() {
  if constexpr (std::is_same_v<D, S>) return NoQuant;
  if constexpr (std::is_same_v<S, float>)
    return std::is_same_v<D, half> ? F322F16 : std::is_same_v<D, bfloat16_t> ? F322BF16 : QF322B8_PRE;
  return std::is_same_v<D, half> ? DEQF16 : REQ8;
}

template <class D, class S, class Store>
void fixpipe(const Op& op, const LocalTensor<S>& src, const FixpipeParamsV220& p, Store store) {
  static_assert(one_of<S, float, int32_t> && (std::is_same_v<D, S> || one_of<D, half, int8_t> ||
                                              (std::is_same_v<D, bfloat16_t> && std::is_same_v<S, float>)),
                "Fixpipe takes float to float, half, bfloat16_t, int8_t and int32_t to int32_t, half, int8_t");
  if (p.quantPre == VDEQF16 || p.quantPre == VQF322B8_PRE || p.quantPre == VREQ8)
    op.fail("quantPre with a scale for each column is not supported: one scale (deqScalar) is");
  if (p.quantPre != quantization<D, S>())
    op.fail(format("quantPre is %d, and from %s to a type of %zu bytes it is %d", p.quantPre,
                   std::is_same_v<S, float> ? "float" : "int32_t", sizeof(D), quantization<D, S>()));
  need_position(op, src, src.GetPosition() == TPosition::CO1, "src", "CO1");
  if (p.isChannelSplit) op.fail("isChannelSplit is not supported");
  if (p.nSize == 0 || p.mSize == 0 || p.ndNum == 0) return;
  const Quantization scale(p.deqScalar);
  const uint64_t n1 = (p.nSize + 15u) / 16, between = uint64_t{p.srcNdStride} * 256;
  const S* c = op.reads(src, ((p.ndNum - 1u) * between + (n1 - 1) * p.srcStride * 16 + p.mSize * 16u) * sizeof(S),
                        "src", 64, [&](uint64_t, auto f) {
                          for (uint64_t nd = 0; nd < p.ndNum; ++nd)
                            for (uint64_t j = 0; j < n1; ++j)
                              f((nd * between + j * p.srcStride * 16) * sizeof(S), p.mSize * 16u * sizeof(S));
                        });
  for (uint32_t nd = 0; nd < p.ndNum; ++nd)
    for (uint32_t i = 0; i < p.mSize; ++i)
      for (uint32_t j = 0; j < p.nSize; ++j)
        store(nd, i, j,
              leaving<D, S>(op, c[nd * between + uint64_t{j / 16} * p.srcStride * 16 + i * 16 + j % 16], p, scale));
}

}  // namespace detail

// Matrices of global memory, row by row, become NZ: columns of 32 bytes, one after the other.
template <class T>
void DataCopy(const LocalTensor<T>& dst, const GlobalTensor<T>& src, const Nd2NzParams& p, ASCENDC_AT) {
  ASCENDC_CUBE_ARCHITECTURE(Nd2NzParams);
  const detail::Op op("DataCopy", at, detail::kCopyIn);
  if (p.ndNum > 4095 || p.dstNzNStride > 16384 || p.dstNzC0Stride > 16384 || p.nValue > 16384)
    op.fail("ndNum is at most 4095; nValue, dstNzC0Stride and dstNzNStride are at most 16384");
  if (p.ndNum == 0 || p.nValue == 0 || p.dValue == 0) return;
  constexpr uint64_t kC0 = detail::c0<T>;
  const uint64_t columns = (p.dValue + kC0 - 1) / kC0;
  const uint64_t span = (p.ndNum - 1ull) * p.dstNzMatrixStride +
                        ((columns - 1) * p.dstNzC0Stride + (p.nValue - 1ull) * p.dstNzNStride + 1) * kC0;
  T* d = op.writes(dst, span * sizeof(T), "dst", 32, [&](uint64_t, auto f) {
    for (uint64_t m = 0; m < p.ndNum; ++m)
      for (uint64_t j = 0; j < columns; ++j)
        for (uint64_t i = 0; i < p.nValue; ++i)
          f(m * p.dstNzMatrixStride * sizeof(T) + (j * p.dstNzC0Stride + i * p.dstNzNStride) * 32, 32);
  });
  const T* s = src.GetPhyAddr();
  src.check(0, ((p.ndNum - 1ull) * p.srcNdMatrixStride + (p.nValue - 1ull) * p.srcDValue + p.dValue) * sizeof(T),
            "DataCopy", at);
  for (uint64_t m = 0; m < p.ndNum; ++m)
    op.reads_global({s + m * p.srcNdMatrixStride, p.dValue * sizeof(T), p.nValue, p.srcDValue * sizeof(T)});
  for (uint64_t m = 0; m < p.ndNum; ++m)
    for (uint64_t i = 0; i < p.nValue; ++i)
      for (uint64_t j = 0; j < columns * kC0; ++j)  // what fills a column up is 0
        d[m * p.dstNzMatrixStride + (j / kC0 * p.dstNzC0Stride + i * p.dstNzNStride) * kC0 + j % kC0] =
            j < p.dValue ? s[m * p.srcNdMatrixStride + i * p.srcDValue + j] : T(0);
}

template <class T>
void LoadData(const LocalTensor<T>& dst, const LocalTensor<T>& src, const LoadData2DParams& p, ASCENDC_AT) {
  ASCENDC_CUBE_ARCHITECTURE(LoadData);
  const detail::Op op("LoadData", at, detail::kLoad);
  const TPosition to = dst.GetPosition(), from = src.GetPosition();
  if (!(to == TPosition::A2 && from == TPosition::A1) && !(to == TPosition::B2 && from == TPosition::B1))
    op.fail(detail::format("from %s to %s: it goes from A1 to A2 and from B1 to B2", detail::position_name(from),
                           detail::position_name(to)));
  const auto* fractals =
      reinterpret_cast<const uint8_t*>(op.reads(src, detail::fractal_span(p), "src", 32, [&](uint64_t, auto f) {
        for (uint64_t r = 0; r < p.repeatTimes; ++r) f((p.startIndex + r * p.srcStride) * 512, 512);
      }));
  detail::load_fractals(op, dst, fractals, p);
}
template <class T>
void LoadData(const LocalTensor<T>& dst, const GlobalTensor<T>& src, const LoadData2DParams& p, ASCENDC_AT) {
  ASCENDC_CUBE_ARCHITECTURE(LoadData);
  const detail::Op op("LoadData", at, detail::kCopyIn);
  detail::need_position(op, dst, detail::of_cube(dst.GetPosition()), "dst", "A1, B1, A2 or B2");
  if (p.ifTranspose) op.fail("ifTranspose is for L1 to L0A and L0B");
  src.check(0, detail::fractal_span(p), "LoadData", at);
  const auto* from = reinterpret_cast<const uint8_t*>(src.GetPhyAddr());
  op.reads_global({from + p.startIndex * 512ull, 512, p.repeatTimes, p.srcStride * 512ull});
  detail::load_fractals(op, dst, from, p);
}

template <class T, class U, class S>
void Mmad(const LocalTensor<T>& dst, const LocalTensor<U>& fm, const LocalTensor<S>& filter, const MmadParams& p,
          ASCENDC_AT) {
  ASCENDC_CUBE_ARCHITECTURE(Mmad);
  detail::mmad<T, U, S, T>(dst, fm, filter, nullptr, p, at);
}
template <class T, class U, class S, class V>
void Mmad(const LocalTensor<T>& dst, const LocalTensor<U>& fm, const LocalTensor<S>& filter, const LocalTensor<V>& bias,
          const MmadParams& p, ASCENDC_AT) {
  ASCENDC_CUBE_ARCHITECTURE(Mmad);
  detail::mmad(dst, fm, filter, &bias, p, at);
}

// L0C to global memory: row by row, or NZ with gaps of dstStride blocks of 32 bytes from one column's start to the next.
template <class T, class S, const FixpipeConfig& config = CFG_ROW_MAJOR>
void Fixpipe(const GlobalTensor<T>& dst, const LocalTensor<S>& src, const FixpipeParamsV220& p, ASCENDC_AT) {
  ASCENDC_CUBE_ARCHITECTURE(Fixpipe);
  static_assert(config.format != CO2Layout::COLUMN_MAJOR, "Fixpipe: CFG_COLUMN_MAJOR is of other chips");
  const detail::Op op("Fixpipe", at, detail::kFix);
  detail::need_atomic_type<T>(op.core(), op.name(), at);
  T* d = dst.GetPhyAddr(0);
  constexpr uint32_t kC0 = std::is_same_v<T, int8_t> ? 32 : 16;
  constexpr bool rows = config.format == CO2Layout::ROW_MAJOR;
  const uint64_t column = p.dstStride * 32ull / sizeof(T);
  const uint64_t span = p.nSize == 0 || p.mSize == 0 ? 0
                        : rows ? (p.ndNum - 1ull) * p.dstNdStride + (p.mSize - 1ull) * p.dstStride + p.nSize
                               : (p.nSize - 1u) / kC0 * column + uint64_t{p.mSize} * kC0;
  dst.check(0, span * sizeof(T), "Fixpipe", at);
  for (uint32_t nd = 0; span && nd < (rows ? p.ndNum : 1u); ++nd) {
    const detail::GlobalPieces pieces =
        rows ? detail::GlobalPieces{d + uint64_t{nd} * p.dstNdStride, p.nSize * sizeof(T), p.mSize,
                                    p.dstStride * sizeof(T)}
             : detail::GlobalPieces{d, uint64_t{p.mSize} * kC0 * sizeof(T), (p.nSize - 1u) / kC0 + 1,
                                    column * sizeof(T)};
    const detail::GlobalUse use(op.core(), op.unit(), SOFTNPU_ASCENDC_WRITES, pieces, op.name(), at);
  }
  detail::fixpipe<T>(op, src, p, [&](uint32_t nd, uint32_t i, uint32_t j, T x) {
    detail::store(op.core(),
                  rows ? d + uint64_t{nd} * p.dstNdStride + uint64_t{i} * p.dstStride + j
                       : d + j / kC0 * column + uint64_t{i} * kC0 + j % kC0,
                  &x, 1);
  });
}
// L0C to L1, for another product: NZ.
template <class T, class S, const FixpipeConfig& config = CFG_ROW_MAJOR>
void Fixpipe(const LocalTensor<T>& dst, const LocalTensor<S>& src, const FixpipeParamsV220& p, ASCENDC_AT) {
  ASCENDC_CUBE_ARCHITECTURE(Fixpipe);
  static_assert(config.format == CO2Layout::NZ, "Fixpipe to L1 writes the format NZ (CFG_NZ)");
  const detail::Op op("Fixpipe", at, detail::kFix);
  detail::need_position(op, dst, detail::space_of(dst.GetPosition()) == detail::kL1, "dst", "A1 or B1");
  constexpr uint32_t kC0 = std::is_same_v<T, int8_t> ? 32 : 16;
  const uint64_t column = p.dstStride * 32ull / sizeof(T);
  if (p.nSize == 0 || p.mSize == 0) return;
  T* d = op.writes(dst, ((p.nSize - 1u) / kC0 * column + uint64_t{p.mSize} * kC0) * sizeof(T), "dst", 32,
                   detail::Strided{(p.nSize - 1u) / kC0 + 1u, uint64_t{p.mSize} * kC0 * sizeof(T), column * sizeof(T)});
  detail::fixpipe<T>(op, src, p, [&](uint32_t, uint32_t i, uint32_t j, T x) {
    d[j / kC0 * column + uint64_t{i} * kC0 + j % kC0] = x;
  });
}
#undef ASCENDC_CUBE_ARCHITECTURE

}  // namespace AscendC
