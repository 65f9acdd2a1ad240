// See gemm.h. The usual scheme: a block of b [kDepth, some columns] is packed into panels of 32 columns that stay in the L2
// cache, and tiles of 8 rows by 32 columns of c are summed in registers.
#include "softnpu/ops/gemm.h"

#include <ATen/Parallel.h>
#include <immintrin.h>

#include <algorithm>
#include <cstdlib>
#include <memory>

#define AVX512 __attribute__((target("avx512f,avx512vl,avx2,fma,f16c")))

namespace softnpu::ops::kernels {

namespace {

constexpr int64_t kTileRows = 8, kTileColumns = 32, kDepth = 256, kBlockRows = 128, kBlockColumns = 512;
constexpr int64_t kWorthwhile = int64_t{1} << 16;  // multiply-adds

// A matrix as the packing reads it: element (i, j) at data[i * rows + j * columns], in units of its type.
struct Operand {
  explicit Operand(const at::Tensor& t)
      : data(t.const_data_ptr()), rows(t.stride(0)), columns(t.stride(1)), half(t.scalar_type() == at::kHalf) {}
  const void* data;
  int64_t rows, columns;
  bool half;
};

struct Free {
  void operator()(float* p) const { std::free(p); }
};
// A thread's packed blocks, kept: they are as large as a second-level cache.
struct Workspace {
  static Workspace& of_thread() {
    thread_local Workspace w;
    return w;
  }
  float* b() { return room(b_, kDepth * kBlockColumns); }
  float* a() { return room(a_, kDepth * kBlockRows); }

 private:
  static float* room(std::unique_ptr<float, Free>& p, int64_t n) {
    if (!p) p.reset(static_cast<float*>(std::aligned_alloc(64, n * sizeof(float))));
    TORCH_CHECK_WITH(OutOfMemoryError, p, "a matrix product's workspace of ", n * sizeof(float), " bytes");
    return p.get();
  }
  std::unique_ptr<float, Free> a_, b_;
};

template <class T>
AVX512 inline __m256 load8(const T* p) {
  if constexpr (sizeof(T) == 2) {
    return _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
  } else {
    return _mm256_loadu_ps(p);
  }
}
template <class T>
AVX512 inline float load1(const T* p) {
  if constexpr (sizeof(T) == 2) {
    return _cvtsh_ss(*p);
  } else {
    return *p;
  }
}

// to[k * to_stride + i] = from[i * stride + k], eight by eight.
template <class T>
AVX512 inline void transpose8(const T* from, int64_t stride, float* to, int64_t to_stride) {
  __m256 r[8], s[8];
  for (int i = 0; i < 8; i++) r[i] = load8(from + i * stride);
  for (int i = 0; i < 8; i += 2) {
    s[i] = _mm256_unpacklo_ps(r[i], r[i + 1]);
    s[i + 1] = _mm256_unpackhi_ps(r[i], r[i + 1]);
  }
  for (int i = 0; i < 8; i += 4) {
    r[i] = _mm256_shuffle_ps(s[i], s[i + 2], 0x44);
    r[i + 1] = _mm256_shuffle_ps(s[i], s[i + 2], 0xee);
    r[i + 2] = _mm256_shuffle_ps(s[i + 1], s[i + 3], 0x44);
    r[i + 3] = _mm256_shuffle_ps(s[i + 1], s[i + 3], 0xee);
  }
  for (int i = 0; i < 4; i++) {
    _mm256_storeu_ps(to + i * to_stride, _mm256_permute2f128_ps(r[i], r[i + 4], 0x20));
    _mm256_storeu_ps(to + (i + 4) * to_stride, _mm256_permute2f128_ps(r[i], r[i + 4], 0x31));
  }
}

// `width` lines side by side, packed as [depth][kLines] with zeros for the missing ones. Line i, element k is at
// from[i * line + k * step]; line or step is 1.
template <class T, int64_t kLines>
AVX512 void pack_lines(const T* from, int64_t line, int64_t step, int64_t width, int64_t depth, float scale,
                       float* to) {
  if (width == kLines && line == 1) {
    const __m256 by = _mm256_set1_ps(scale);
    for (int64_t k = 0; k < depth; k++) {
      for (int64_t i = 0; i < kLines; i += 8) {
        _mm256_storeu_ps(to + k * kLines + i, _mm256_mul_ps(load8(from + k * step + i), by));
      }
    }
    return;
  }
  int64_t done = 0;
  if (width == kLines && step == 1 && scale == 1) {
    for (; done + 8 <= depth; done += 8) {
      for (int64_t i = 0; i < kLines; i += 8) transpose8(from + i * line + done, line, to + done * kLines + i, kLines);
    }
  }
  for (int64_t k = done; k < depth; k++) {
    for (int64_t i = 0; i < kLines; i++) {
      to[k * kLines + i] = i < width ? scale * load1(from + i * line + k * step) : 0;
    }
  }
}

template <int64_t kLines>
void pack(const Operand& m, int64_t line, int64_t step, int64_t at_line, int64_t at_step, int64_t width, int64_t depth,
          float scale, float* to) {
  const int64_t offset = at_line * line + at_step * step;
  if (m.half) {
    pack_lines<uint16_t, kLines>(static_cast<const uint16_t*>(m.data) + offset, line, step, width, depth, scale, to);
  } else {
    pack_lines<float, kLines>(static_cast<const float*>(m.data) + offset, line, step, width, depth, scale, to);
  }
}

// Where a tile's sums come from, and where they go: the same place unless the last ones are rounded to fp16.
template <class Out>
struct Sums {
  const float* from;
  Out* to;
  int64_t from_stride, to_stride;
  Sums at(int64_t row, int64_t column) const {
    return {from == nullptr ? nullptr : from + row * from_stride + column, to + row * to_stride + column, from_stride,
            to_stride};
  }
};

AVX512 inline void store16(float* to, __m512 v) { _mm512_storeu_ps(to, v); }
AVX512 inline void store16(uint16_t* to, __m512 v) {
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(to), _mm512_maskz_cvtps_ph(0xffff, v, _MM_FROUND_TO_NEAREST_INT));
}
AVX512 inline void store1(float* to, float v) { *to = v; }
AVX512 inline void store1(uint16_t* to, float v) { *to = _cvtss_sh(v, _MM_FROUND_TO_NEAREST_INT); }

// c[8, 32] = or += a[8, depth] * panel[depth, 32]; `a` is packed as [depth][8]. Adds to nothing if there is no `from`.
template <class Out>
AVX512 void tile(const float* a, const float* panel, int64_t depth, const Sums<Out>& c) {
  __m512 left[kTileRows], right[kTileRows];
#pragma GCC unroll 8
  for (int r = 0; r < kTileRows; r++) {
    left[r] = c.from ? _mm512_loadu_ps(c.from + r * c.from_stride) : _mm512_setzero_ps();
    right[r] = c.from ? _mm512_loadu_ps(c.from + r * c.from_stride + 16) : _mm512_setzero_ps();
  }
  for (int64_t k = 0; k < depth; k++, a += kTileRows, panel += kTileColumns) {
    const __m512 p = _mm512_load_ps(panel), q = _mm512_load_ps(panel + 16);
#pragma GCC unroll 8
    for (int r = 0; r < kTileRows; r++) {
      const __m512 x = _mm512_set1_ps(a[r]);
      left[r] = _mm512_fmadd_ps(x, p, left[r]);
      right[r] = _mm512_fmadd_ps(x, q, right[r]);
    }
  }
#pragma GCC unroll 8
  for (int r = 0; r < kTileRows; r++) {
    store16(c.to + r * c.to_stride, left[r]);
    store16(c.to + r * c.to_stride + 16, right[r]);
  }
}

// The same for a tile at the edge, through memory of its own.
template <class Out>
AVX512 void edge_tile(const float* a, const float* panel, int64_t depth, const Sums<Out>& c, int64_t rows,
                      int64_t columns) {
  alignas(64) float whole[kTileRows * kTileColumns] = {};
  for (int64_t r = 0; c.from && r < rows; r++) {
    std::copy_n(c.from + r * c.from_stride, columns, whole + r * kTileColumns);
  }
  tile<float>(a, panel, depth, {whole, whole, kTileColumns, kTileColumns});
  for (int64_t r = 0; r < rows; r++) {
    for (int64_t j = 0; j < columns; j++) store1(c.to + r * c.to_stride + j, whole[r * kTileColumns + j]);
  }
}

struct Range {
  int64_t begin, end;
};

struct Product {
  Operand a, b;
  int64_t depth;
  float alpha;
  bool add;
  float* sums;
  int64_t sums_stride;
  void* out;
  int64_t out_stride;
  bool half;
};

// The tiles of one block, whose parts of a and b are packed.
template <class Out>
void tiles(const float* a, const float* b, int64_t deep, Range rows, Range columns, const Sums<Out>& c) {
  for (int64_t j = columns.begin; j < columns.end; j += kTileColumns) {
    for (int64_t i = rows.begin; i < rows.end; i += kTileRows) {
      const float *pa = a + (i - rows.begin) * deep, *pb = b + (j - columns.begin) * deep;
      if (rows.end - i >= kTileRows && columns.end - j >= kTileColumns) {
        tile(pa, pb, deep, c.at(i, j));
      } else {
        edge_tile(pa, pb, deep, c.at(i, j), std::min(kTileRows, rows.end - i), std::min(kTileColumns, columns.end - j));
      }
    }
  }
}

// One thread's part.
void multiply(const Product& p, Range rows, Range columns) {
  float* packed_b = Workspace::of_thread().b();
  float* packed_a = Workspace::of_thread().a();
  for (int64_t n = columns.begin; n < columns.end; n += kBlockColumns) {
    const Range across{n, std::min(n + kBlockColumns, columns.end)};
    for (int64_t k = 0; k < p.depth; k += kDepth) {
      const int64_t deep = std::min(kDepth, p.depth - k);
      for (int64_t j = n; j < across.end; j += kTileColumns) {
        pack<kTileColumns>(p.b, p.b.columns, p.b.rows, j, k, std::min(kTileColumns, across.end - j), deep, 1,
                           packed_b + (j - n) * deep);
      }
      const float* from = p.add || k > 0 ? p.sums : nullptr;
      const bool last = k + deep == p.depth;
      for (int64_t m = rows.begin; m < rows.end; m += kBlockRows) {
        const Range down{m, std::min(m + kBlockRows, rows.end)};
        for (int64_t i = m; i < down.end; i += kTileRows) {
          pack<kTileRows>(p.a, p.a.rows, p.a.columns, i, k, std::min(kTileRows, down.end - i), deep, p.alpha,
                          packed_a + (i - m) * deep);
        }
        if (last && p.half) {
          tiles<uint16_t>(packed_a, packed_b, deep, down, across,
                          {from, static_cast<uint16_t*>(p.out), p.sums_stride, p.out_stride});
        } else {
          float* to = last ? static_cast<float*>(p.out) : p.sums;
          tiles<float>(packed_a, packed_b, deep, down, across,
                       {from, to, p.sums_stride, last ? p.out_stride : p.sums_stride});
        }
      }
    }
  }
}

bool operand_suits(const at::Tensor& t) {
  return (t.scalar_type() == at::kFloat || t.scalar_type() == at::kHalf) && t.dim() == 2 &&
         (t.stride(0) == 1 || t.stride(1) == 1);
}

int64_t pieces(int64_t length, int64_t tile) { return (length + tile - 1) / tile; }

}  // namespace

bool gemm_suits(const at::Tensor& a, const at::Tensor& b) {
  static const bool can = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl") &&
                          __builtin_cpu_supports("f16c") && __builtin_cpu_supports("fma");
  static const bool better = __builtin_cpu_is("amd");
  if (!can || !operand_suits(a) || !operand_suits(b)) return false;
  if (a.scalar_type() == at::kFloat && b.scalar_type() == at::kFloat && !better) return false;
  return a.size(0) >= kTileRows && b.size(1) >= kTileColumns / 2 && a.size(0) * b.size(1) * a.size(1) >= kWorthwhile;
}

bool gemm_needs_sums(const at::Tensor& a) { return a.size(1) > kDepth; }

void gemm(const at::Tensor& a, const at::Tensor& b, float alpha, bool add, at::Tensor& sums, at::Tensor& out) {
  const int64_t m = a.size(0), n = b.size(1);
  const bool summed = sums.defined();
  const Product product{Operand(a),
                        Operand(b),
                        a.size(1),
                        alpha,
                        add,
                        summed ? sums.mutable_data_ptr<float>() : nullptr,
                        summed ? sums.stride(0) : 0,
                        out.mutable_data_ptr(),
                        out.stride(0),
                        out.scalar_type() == at::kHalf};
  // As many column parts as there are panels and threads; rows are shared only by what is left over.
  const int64_t threads = at::in_parallel_region() ? 1 : at::get_num_threads();
  const int64_t across = std::min(threads, pieces(n, kTileColumns));
  const int64_t down = std::min(std::max<int64_t>(1, threads / across), pieces(m, kTileRows));
  const int64_t width = pieces(pieces(n, kTileColumns), across) * kTileColumns;
  const int64_t height = pieces(pieces(m, kTileRows), down) * kTileRows;
  at::parallel_for(0, across * down, 1, [&](int64_t begin, int64_t end) {
    for (int64_t part = begin; part < end; part++) {
      const int64_t row = part / across * height, column = part % across * width;
      if (row < m && column < n) {
        multiply(product, {row, std::min(m, row + height)}, {column, std::min(n, column + width)});
      }
    }
  });
}

}  // namespace softnpu::ops::kernels
