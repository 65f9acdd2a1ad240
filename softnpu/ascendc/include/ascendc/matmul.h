// The Matmul object: MatmulType, TCubeTiling, REGIST_MATMUL_OBJ, SetTensorA/B, SetBias, IterateAll, Iterate with GetTensorC. Called by
// kernels, through lib/matmul_intf.h. What it is not: a copy of the chip's way there. The core that asks computes the product itself, in
// float (int8_t: in int32_t), and of a mixed kernel's cube core nothing more is asked. The tiling is checked as the chip needs it.
#pragma once

#include "kernel_operator.h"
#include "kernel_tiling/kernel_tiling.h"

enum class CubeFormat { ND = 0, NZ, ZN, ZZ, NN, VECTOR, SCALAR };

namespace AscendC {

using ::CubeFormat;

enum class LayoutMode { NONE = 0, BSNGD, SBNGD, BNGS1S2, NORMAL };

template <TPosition position, CubeFormat cube_format, class TYPE, bool is_trans = false,
          LayoutMode layout_mode = LayoutMode::NONE, bool is_shared = false>
struct MatmulType {
  static constexpr TPosition pos = position;
  static constexpr CubeFormat format = cube_format;
  using T = TYPE;
  static_assert(detail::per_byte<T> == 1,
                "MatmulType: the software NPU has no matrices of 4 bits (anycend docs ascendc)");
  static constexpr bool isTrans = is_trans, ibShare = is_shared;
  static constexpr LayoutMode layout = layout_mode;
};

struct MatmulConfig {
  bool doNorm = true, doBasicBlock = false, doMultiDataLoad = false;
};
inline constexpr MatmulConfig CFG_NORM = {true, false, false}, CFG_MDL = {false, false, true};
// Their parameters fit the chip's way to the shape; none of them changes the product.
template <class... More>
constexpr MatmulConfig GetNormalConfig(More...) {
  return CFG_NORM;
}
template <class... More>
constexpr MatmulConfig GetMDLConfig(More...) {
  return CFG_MDL;
}
// B of both vector cores is one; here each has a product of its own.
template <class... More>
constexpr MatmulConfig GetIBShareNormConfig(More...) {
  return CFG_NORM;
}

namespace detail {

// A matrix as it lies in memory.
template <class Type>
struct Matrix {
  using T = typename Type::T;
  const T* p = nullptr;
  bool transposed = false;
  int64_t rows = 0, columns = 0;  // of the memory

  const T& at(int64_t i, int64_t j) const {
    if (transposed) std::swap(i, j);
    if constexpr (Type::format == CubeFormat::NZ) {
      constexpr int64_t kC0 = 32 / sizeof(T);
      return p[(j / kC0 * ((rows + 15) / 16 * 16) + i) * kC0 + j % kC0];
    }
    return p[i * columns + j];
  }
  uint64_t bytes(int64_t m, int64_t n) const {  // from p to the end of its part of m x n
    if (transposed) std::swap(m, n);
    return m && n ? static_cast<uint64_t>(Type::format == CubeFormat::NZ ? m * n : (m - 1) * columns + n) * sizeof(T)
                  : 0;
  }
};

template <class Type>
constexpr bool of_global = Type::pos == TPosition::GM;

}  // namespace detail

template <class A_TYPE, class B_TYPE, class C_TYPE, class BIAS_TYPE = C_TYPE, const MatmulConfig& config = CFG_NORM>
class Matmul {
 public:
  using A = typename A_TYPE::T;
  using B = typename B_TYPE::T;
  using C = typename C_TYPE::T;
  using Bias = typename BIAS_TYPE::T;
  using Sum = std::conditional_t<std::is_same_v<A, int8_t>, int32_t, float>;
  static_assert(std::is_same_v<A, B> && detail::one_of<A, half, bfloat16_t, float, int8_t>,
                "Matmul takes half, bfloat16_t, float or int8_t, of both matrices the same");
  static_assert(std::is_same_v<Sum, int32_t> ? std::is_same_v<C, int32_t> : detail::one_of<C, half, bfloat16_t, float>,
                "Matmul gives half, bfloat16_t or float, of int8_t int32_t: with quantization it is not supported");
  static_assert((A_TYPE::format == CubeFormat::ND || A_TYPE::format == CubeFormat::NZ) &&
                    (B_TYPE::format == CubeFormat::ND || B_TYPE::format == CubeFormat::NZ) &&
                    C_TYPE::format == CubeFormat::ND,
                "Matmul: A and B are CubeFormat::ND or NZ, and C is ND; other formats are not supported");
  static_assert(A_TYPE::layout == LayoutMode::NONE && B_TYPE::layout == LayoutMode::NONE,
                "Matmul: batches (LayoutMode) are not supported");

  void Init(const TCubeTiling* tiling, TPipe* = nullptr, ASCENDC_AT) {
    at_ = at;
    block_.clear();
    const auto& chip = *detail::core(at, "Matmul").block.chip;
    const TCubeTiling& t = *tiling;
    if (t.baseM <= 0 || t.baseN <= 0 || t.baseK <= 0 || t.singleCoreM <= 0 || t.singleCoreN <= 0 || t.singleCoreK <= 0)
      detail::fail(at, "Matmul::Init",
                   "the tiling is empty: baseM, baseN, baseK and singleCoreM, singleCoreN, singleCoreK are 1 or more");
    need(uint64_t(t.baseM) * t.baseK * sizeof(A), chip.l0a, "baseM x baseK", "L0A");
    need(uint64_t(t.baseK) * t.baseN * sizeof(B), chip.l0b, "baseK x baseN", "L0B");
    need(uint64_t(t.baseM) * t.baseN * sizeof(Sum), chip.l0c, "baseM x baseN", "L0C");
    t_ = t;
    SetOrgShape(t.M, t.N, t.Ka, t.Kb);
    SetSingleShape(t.singleCoreM, t.singleCoreN, t.singleCoreK);
    biased_ = false;
    a_.p = nullptr;
    b_.p = nullptr;
  }
  void SetSubBlockIdx(uint8_t) {}

  void SetOrgShape(int orgM, int orgN, int orgK) { SetOrgShape(orgM, orgN, orgK, orgK); }
  void SetOrgShape(int orgM, int orgN, int orgKa, int orgKb, int orgKc = 0) {
    org_m_ = orgM;
    org_n_ = orgN;
    org_ka_ = orgKa;
    org_kb_ = orgKb;
    org_kc_ = orgKc ? orgKc : orgN;
  }
  void SetSingleShape(int singleM, int singleN, int singleK) {
    m_ = singleM;
    n_ = singleN;
    k_ = singleK;
    step_ = 0;
  }
  void SetTail(int tailM = -1, int tailN = -1, int tailK = -1) {
    if (tailM != -1) m_ = tailM;
    if (tailN != -1) n_ = tailN;
    if (tailK != -1) k_ = tailK;
    step_ = 0;
  }

  void SetTensorA(const GlobalTensor<A>& gm, bool isTransposeA = false, ASCENDC_AT) {
    static_assert(detail::of_global<A_TYPE>, "SetTensorA: A_TYPE says that A is no GlobalTensor");
    set(a_, gm.GetPhyAddr(), isTransposeA, org_m_, org_ka_, "SetTensorA", at);
    local_a_ = {};
  }
  void SetTensorB(const GlobalTensor<B>& gm, bool isTransposeB = false, ASCENDC_AT) {
    static_assert(detail::of_global<B_TYPE>, "SetTensorB: B_TYPE says that B is no GlobalTensor");
    set(b_, gm.GetPhyAddr(), isTransposeB, org_kb_, org_n_, "SetTensorB", at);
    local_b_ = {};
  }
  // In the core's own memory the part of this core lies without gaps.
  void SetTensorA(const LocalTensor<A>& local, bool isTransposeA = false, ASCENDC_AT) {
    static_assert(!detail::of_global<A_TYPE>, "SetTensorA: A_TYPE says that A is a GlobalTensor");
    local_a_ = local;
    a_.p = nullptr;
    a_.transposed = checked(isTransposeA, A_TYPE::isTrans, "SetTensorA", at);
    step_ = 0;
  }
  void SetTensorB(const LocalTensor<B>& local, bool isTransposeB = false, ASCENDC_AT) {
    static_assert(!detail::of_global<B_TYPE>, "SetTensorB: B_TYPE says that B is a GlobalTensor");
    local_b_ = local;
    b_.p = nullptr;
    b_.transposed = checked(isTransposeB, B_TYPE::isTrans, "SetTensorB", at);
    step_ = 0;
  }
  void SetBias(const GlobalTensor<Bias>& bias, ASCENDC_AT) {
    if (!t_.isBias) detail::fail(at, "SetBias", "the tiling has no bias (isBias is 0)");
    bias_ = bias.GetPhyAddr();
    biased_ = true;
  }
  void DisableBias() { biased_ = false; }
  void ClearBias() { biased_ = false; }

  // The whole part of this core.
  template <bool sync = true>
  void IterateAll(const GlobalTensor<C>& gm, uint8_t enAtomic = 0, bool enSequentialWrite = false,
                  bool waitIterateAll = false, bool fakeMsg = false, ASCENDC_AT) {
    (void)waitIterateAll, (void)fakeMsg;  // it is over when the call returns
    static_assert(detail::of_global<C_TYPE>, "IterateAll: C_TYPE says that C is no GlobalTensor");
    step_ = 0;
    while (Iterate<sync>(false, at)) GetTensorC<sync>(gm, enAtomic, enSequentialWrite, at);
  }
  template <bool sync = true>
  void IterateAll(const LocalTensor<C>& ubCmatrix, uint8_t enAtomic = 0, ASCENDC_AT) {
    static_assert(!detail::of_global<C_TYPE>, "IterateAll: C_TYPE says that C is a GlobalTensor");
    no_atomic(enAtomic, "IterateAll", at);
    step_ = 0;
    detail::core(at, "IterateAll").hazards.meet();  // it waits for what the core did with the tensor
    const detail::Op op("IterateAll", at, detail::kCopyIn);
    C* c = op.writes(ubCmatrix, static_cast<uint64_t>(m_) * n_ * sizeof(C), "ubCmatrix");
    while (Iterate<sync>(false, at))
      for (int64_t i = 0; i < rows_; ++i)
        for (int64_t j = 0; j < columns_; ++j)
          c[(row_ + i) * n_ + column_ + j] = static_cast<C>(block_[i * columns_ + j]);
    detail::core().hazards.meet();
  }

  // One product of baseM x baseN after the other; false when there is none left. enPartialSum adds to the last one,
  // which must have been as large; the first one adds to nothing.
  template <bool sync = true>
  bool Iterate(bool enPartialSum = false, ASCENDC_AT) {
    const int64_t down = (m_ + t_.baseM - 1) / t_.baseM, across = (n_ + t_.baseN - 1) / t_.baseN;
    if (step_ >= down * across) {
      step_ = 0;
      return false;
    }
    const int64_t i = t_.iterateOrder ? step_ / across : step_ % down,
                  j = t_.iterateOrder ? step_ % across : step_ / down;
    ++step_;
    row_ = i * t_.baseM;
    column_ = j * t_.baseN;
    rows_ = std::min<int64_t>(t_.baseM, m_ - row_);
    columns_ = std::min<int64_t>(t_.baseN, n_ - column_);
    if (enPartialSum && !block_.empty() && (block_rows_ != rows_ || block_columns_ != columns_))
      detail::fail(
          at, "Iterate",
          detail::format("enPartialSum adds this product of %lld x %lld to the last one, which is %lld x %lld: "
                         "they must be alike (singleM is baseM, singleN is baseN)",
                         static_cast<long long>(rows_), static_cast<long long>(columns_),
                         static_cast<long long>(block_rows_), static_cast<long long>(block_columns_)));
    multiply(enPartialSum && !block_.empty(), at);
    return true;
  }
  template <bool sync = true>
  void GetTensorC(const GlobalTensor<C>& gm, uint8_t enAtomic = 0, bool enSequentialWrite = false, ASCENDC_AT) {
    const auto atomic = atomic_of(enAtomic, at);
    C* to = gm.GetPhyAddr(0);
    const int64_t stride = enSequentialWrite ? t_.baseN : org_kc_;
    if (!enSequentialWrite) to += row_ * stride + column_;
    detail::Core& c = detail::core(at, "GetTensorC");
    if (rows_)
      detail::check_global(to, static_cast<size_t>((rows_ - 1) * stride + columns_) * sizeof(C), "GetTensorC", at);
    const auto before = c.atomic;
    if (enAtomic) c.atomic = atomic;
    c.hazards.issue(detail::kObject, "GetTensorC", at);
    {
      const detail::GlobalPieces pieces{to, columns_ * sizeof(C), static_cast<uint64_t>(rows_), stride * sizeof(C)};
      const detail::GlobalUse use(c, detail::kObject, SOFTNPU_ASCENDC_WRITES, pieces, "GetTensorC", at);
    }
    c.hazards.object_returns();
    for (int64_t i = 0; i < rows_; ++i)
      for (int64_t j = 0; j < columns_; ++j) {
        const C x = static_cast<C>(block_[i * columns_ + j]);
        detail::store(c, to + i * stride + j, &x, 1);
      }
    c.atomic = before;
  }
  template <bool sync = true>
  void GetTensorC(const LocalTensor<C>& local, uint8_t enAtomic = 0, bool = false, ASCENDC_AT) {
    no_atomic(enAtomic, "GetTensorC", at);
    detail::core(at, "GetTensorC").hazards.meet();
    const detail::Op op("GetTensorC", at, detail::kCopyIn);
    C* to = op.writes(local, static_cast<uint64_t>(t_.baseM) * t_.baseN * sizeof(C), "co2Local");
    for (int64_t i = 0; i < rows_; ++i)
      for (int64_t j = 0; j < columns_; ++j) to[i * t_.baseN + j] = static_cast<C>(block_[i * columns_ + j]);
    detail::core().hazards.meet();
  }
  void WaitIterateAll() {}
  void WaitGetTensorC() {}
  void End() {}

 private:
  void need(uint64_t bytes, uint32_t room, const char* what, const char* memory) const {
    if (bytes > room)
      detail::fail(at_, "Matmul::Init",
                   detail::format("%s needs %llu bytes, and %s has %u", what, static_cast<unsigned long long>(bytes),
                                  memory, room));
  }
  bool checked(bool transposed, bool may, const char* what, detail::Site at) const {
    if (transposed && !may)
      detail::fail(at, what, "the matrix is transposed, and its MatmulType says that it never is");
    return transposed;
  }
  template <class Type>
  void set(detail::Matrix<Type>& matrix, const typename Type::T* p, bool transposed, int64_t rows, int64_t columns,
           const char* what, detail::Site at) {
    matrix = {p, checked(transposed, Type::isTrans, what, at), rows, columns};
    if (transposed) std::swap(matrix.rows, matrix.columns);
    step_ = 0;
  }
  void no_atomic(uint8_t mode, const char* what, detail::Site at) const {
    if (mode) detail::fail(at, what, "enAtomic is for global memory");
  }
  detail::Core::Atomic atomic_of(uint8_t mode, detail::Site at) const {
    using Atomic = detail::Core::Atomic;
    constexpr Atomic kModes[] = {Atomic::kNone, Atomic::kAdd, Atomic::kMax, Atomic::kMin};
    if (mode > 3) detail::fail(at, "GetTensorC", detail::format("enAtomic is %u: 0 none, 1 add, 2 max, 3 min", mode));
    return kModes[mode];
  }
  template <class Type>
  detail::Matrix<Type> matrix(const detail::Matrix<Type>& set, const LocalTensor<typename Type::T>& local, int64_t rows,
                              int64_t columns, const char* which, detail::Site at) const {
    auto x = set;
    if constexpr (detail::of_global<Type>) {
      if (x.p == nullptr)
        detail::fail(at, "Matmul", detail::format("there is no matrix %s: SetTensor%s is missing", which, which));
      detail::check_global(x.p, x.bytes(rows, columns), "Matmul", at);
      if (Type::format != CubeFormat::NZ) {
        detail::Core& c = detail::core(at, "Matmul");
        const uint64_t down = static_cast<uint64_t>(x.transposed ? columns : rows),
                       across = static_cast<uint64_t>(x.transposed ? rows : columns);
        c.hazards.issue(detail::kObject, "Matmul", at);
        detail::reads_global(c, detail::kObject, {x.p, across * sizeof(*x.p), down, x.columns * sizeof(*x.p)}, "Matmul",
                             at);
        c.hazards.object_returns();
      }
    } else {
      x.rows = x.transposed ? columns : rows;
      x.columns = x.transposed ? rows : columns;
      const detail::Op op("Matmul", at, detail::kCopyOut);
      x.p = op.reads(local, static_cast<uint64_t>(rows * columns) * sizeof(typename Type::T), which);
    }
    return x;
  }
  void multiply(bool add, detail::Site at) {
    const auto a = matrix(a_, local_a_, m_, k_, "A", at);
    const auto b = matrix(b_, local_b_, k_, n_, "B", at);
    if (!add) block_.assign(static_cast<size_t>(rows_ * columns_), Sum(0));
    block_rows_ = rows_, block_columns_ = columns_;
    if (biased_ && !add) {
      detail::check_global(bias_, static_cast<size_t>(n_) * sizeof(Bias), "Matmul", at);
      for (int64_t i = 0; i < rows_; ++i)
        for (int64_t j = 0; j < columns_; ++j) block_[i * columns_ + j] = static_cast<Sum>(bias_[column_ + j]);
    }
    std::vector<Sum> row(static_cast<size_t>(columns_));
    for (int64_t l = 0; l < k_; ++l) {
      for (int64_t j = 0; j < columns_; ++j) row[j] = static_cast<Sum>(b.at(l, column_ + j));
      for (int64_t i = 0; i < rows_; ++i) {
        const Sum x = static_cast<Sum>(a.at(row_ + i, l));
        Sum* to = block_.data() + i * columns_;
        for (int64_t j = 0; j < columns_; ++j) to[j] += x * row[j];
      }
    }
  }

  TCubeTiling t_;
  detail::Site at_;
  detail::Matrix<A_TYPE> a_;
  detail::Matrix<B_TYPE> b_;
  LocalTensor<A> local_a_;
  LocalTensor<B> local_b_;
  const Bias* bias_ = nullptr;
  bool biased_ = false;
  int64_t org_m_ = 0, org_n_ = 0, org_ka_ = 0, org_kb_ = 0, org_kc_ = 0, m_ = 0, n_ = 0, k_ = 0;
  int64_t step_ = 0, row_ = 0, column_ = 0, rows_ = 0, columns_ = 0;
  int64_t block_rows_ = 0, block_columns_ = 0;  // of what block_ holds
  std::vector<Sum> block_;
};
template <class A_TYPE, class B_TYPE, class C_TYPE, class BIAS_TYPE = C_TYPE, const MatmulConfig& config = CFG_NORM>
using MatmulImpl = Matmul<A_TYPE, B_TYPE, C_TYPE, BIAS_TYPE, config>;

namespace detail {

// Does this core take part? Of a mixed kernel the cube core serves its vector cores, which compute here by themselves.
inline bool matmul_client(Site at) {
  Core& c = core(at, "REGIST_MATMUL_OBJ");
  if (c.kind == Core::Kind::kUnstated || (!c.mixed && !c.cube()))
    fail(at, "REGIST_MATMUL_OBJ",
         "the kernel does not say that it runs on the cube cores: KERNEL_TASK_TYPE_DEFAULT(KERNEL_TYPE_MIX_AIC_1_2), "
         "KERNEL_TYPE_MIX_AIC_1_1 or KERNEL_TYPE_AIC_ONLY is missing");
  return !c.mixed || !c.cube();
}
template <class Object, class Tiling, class... More>
void regist_matmul(TPipe* pipe, Site at, Object& object, Tiling tiling, More&&... more) {
  if constexpr (std::is_pointer_v<Tiling>)
    if (tiling) object.Init(tiling, pipe, at);
  if constexpr (sizeof...(More) > 0) regist_matmul(pipe, at, more...);
}

}  // namespace detail
}  // namespace AscendC

namespace matmul {
using AscendC::CFG_MDL;
using AscendC::CFG_NORM;
using AscendC::LayoutMode;
using AscendC::Matmul;
using AscendC::MatmulConfig;
using AscendC::MatmulImpl;
using AscendC::MatmulType;
}  // namespace matmul

// The objects, each with its tiling (null: Init follows). The cube core of a mixed kernel leaves the kernel here.
#define REGIST_MATMUL_OBJ(tpipe, workspace, ...)                                                     \
  if ((void)(workspace), !::AscendC::detail::matmul_client(::AscendC::detail::Site::here())) return; \
  ::AscendC::detail::regist_matmul(tpipe, ::AscendC::detail::Site::here(), __VA_ARGS__)
