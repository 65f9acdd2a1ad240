// Caches of keys and values: writing rows to places, reading the rows of a sequence, and the fused operators that norm, rotate and quantize
// rows on their way into a cache. Who calls it: expressions of ops/aclnn.yaml that name it as their header.
#pragma once

#include <ATen/core/Tensor.h>

#include <optional>
#include <string_view>

namespace softnpu::ops::kernels {

// A cache is [blocks, rows of a block, heads, columns]; "PA_NZ" has the columns of all heads in parts, [blocks, parts, rows, part].
void cache_write(const at::Tensor& rows, const at::Tensor& slots, std::string_view mode, at::Tensor& cache);
void cache_read(const at::Tensor& cache, const at::Tensor& tables, const at::Tensor& lengths,
                const std::optional<at::Tensor>& offset, std::string_view mode, bool running, at::Tensor& rows);

inline void refuse_compression(const std::optional<at::Tensor>& lengths, const std::optional<at::Tensor>& offsets) {
  TORCH_CHECK_NOT_IMPLEMENTED(!lengths && !offsets, "aclnnScatterPaKvCache: compression of a cache is not implemented");
}

// data[i] = updates[i] from indices[i] on, along an axis; pairs of indices name batch and offset.
void scatter_update(at::Tensor& data, const at::Tensor& indices, const at::Tensor& updates, int64_t axis);
void scatter_list(at::TensorList data, const at::Tensor& indices, const at::Tensor& updates,
                  const std::optional<at::Tensor>& mask, std::string_view reduce, int64_t axis);
void need_scatter_rounding(std::string_view mode, const at::Tensor& data);  // hifloat8 has its own
void quant_scatter(at::Tensor& data, const at::Tensor& indices, const at::Tensor& updates, const at::Tensor& scales,
                   const std::optional<at::Tensor>& zero_points, int64_t axis, int64_t quant_axis, int64_t reduction);

// -- kv_rope.cpp
struct CacheScale {
  const std::optional<at::Tensor>&scale, &offset;
};
struct NormedRope {
  const at::Tensor &gamma, &cos, &sin;
  const at::Tensor& index;
  double eps;
  std::string_view mode;
};
void kv_norm_rope(const at::Tensor& kv, const std::optional<at::Tensor>& v, const NormedRope& o, const CacheScale& of_k,
                  const CacheScale& of_v, at::Tensor& k_cache, at::Tensor& v_cache, at::Tensor& k_out,
                  at::Tensor& v_out);

struct Dequant {
  const std::optional<at::Tensor>&weight_scale, &row_scale, &bias;
};
struct RopeCache {
  const at::Tensor &cos, &sin, &indices;
  at::IntArrayRef splits;
  bool paged;
};
void rope_into_cache(const at::Tensor& x, const Dequant& dequant, const RopeCache& o, const CacheScale& of_k,
                     const CacheScale& of_v, at::Tensor& k_cache, at::Tensor& v_cache, at::Tensor& q, at::Tensor& k,
                     at::Tensor& v);

struct QkvRows {
  const at::Tensor &q_gamma, &k_gamma, &cos, &sin, &index;
  at::IntArrayRef heads;
  double eps;
  std::string_view mode;
};
struct QkvOut {
  at::Tensor &q, &k_cache, &v_cache, &q_plain, &k_plain, &v_plain;
};
void qkv_norm_rope(const at::Tensor& qkv, const QkvRows& o, const CacheScale& of_k, const CacheScale& of_v,
                   const QkvOut& out);

// Rotation by rows of a table of cosines and sines; with three rows of positions each has a section of the columns.
struct RopeTable {
  const at::Tensor& rows;
  at::IntArrayRef sections;
  int64_t columns;  // of a head
  bool halves, interleaved = false;
};
void rope_by_position(const at::Tensor& positions, const at::Tensor& x, const RopeTable& table, at::Tensor& out);

}  // namespace softnpu::ops::kernels
