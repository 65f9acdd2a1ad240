// Quantized products beside an exchange between ranks: factors of int8, of 8-bit floats with numbers as scales, and MX operands, whose scales
// are exchanged with them. Both phases' checks throw. Who calls it: steps of ops/aclnn.yaml that name it as their header. What it is not:
// the exchange (peers.h), or what such operators share with those of other types (group_product.h).
#pragma once

#include "softnpu/ops/group_product.h"
#include "softnpu/ops/mx_product.h"

namespace softnpu::ops::kernels {

// What has one value here. `mode` is the engine that carries the exchange.
struct QuantSettings {
  std::string_view mode{};
  int64_t coding = 0, coded_type = -1;
  Maybe coding_scale{}, a_offset{}, b_offset{};
  bool turned_a = false;
  int64_t group = 0;
};
void need_quant_settings(const QuantSettings& s);

// Ways of quantization, CANN's numbers: a number for the tensor, a column, a row; powers of two (MX); a row as it is found.
enum Mode : int64_t { kTensor = 1, kColumn = 2, kRow = 3, kPowers = 6, kFound = 7 };

struct QuantPair {
  at::Tensor a, b;
  bool turned_b = false;
  Maybe bias{}, a_scale{};
  at::Tensor b_scale;
  int64_t a_way = 0, b_way = 0;
  int64_t a_type = 0;  // of rows that are quantized as they are found: a number of aclDataType

  int64_t columns() const { return b.size(turned_b ? 0 : 1); }
  QuantPair of(const at::Tensor& rows,
               const at::Tensor& scales) const;  // other rows, in memory of bytes, and their scales
};
void need_pair_group(const QuantSettings& s, const QuantPair& f);
// The same memory as bytes, where an element is one.
at::Tensor bytes_of(const at::Tensor& t);

// -- rows of all ranks side by side, then the product
void need_joined_pair(const QuantPair& f, at::IntArrayRef axes, int64_t ranks, const at::Tensor& out,
                      const at::Tensor& joined);
std::vector<int64_t> exchanged_scales(const QuantPair& f);  // sizes; none where there is nothing to exchange
std::vector<int64_t> joined_scales(const QuantPair& f, int64_t ranks);
void exchange_scales(const Peers& peers, const QuantPair& f, const at::Tensor& room);
void join_scales(const QuantPair& f, const at::Tensor& parts, at::Tensor out);
void quant_pair_product(const QuantPair& f, at::Tensor out);

// -- the product, whose columns go to the ranks
void need_split_pair(const QuantPair& f, at::IntArrayRef axes, int64_t ranks, const at::Tensor& out);
void split_pair_columns(const QuantPair& f, at::Tensor out);

// -- experts
struct QuantExperts {
  Experts e;
  at::Tensor x_scale, weight_scale;
  Maybe shared_x_scale{}, shared_weight_scale{};
  int64_t x_way = 0, weight_way = 0, shared_x_way = 0, shared_weight_way = 0;
};
void need_expert_group(const QuantSettings& s, const QuantExperts& q);
void need_quant_experts(const QuantExperts& q, int64_t ranks, const char* name, const at::Tensor& out);
std::vector<int64_t> arrived_scales(const QuantExperts& q);
void exchange_scales(const Peers& peers, const QuantExperts& q, const at::Tensor& room);
void scales_to_experts(const QuantExperts& q, const at::Tensor& parts, at::Tensor out);
// Of rows in the order of experts, in memory of bytes, and their scales.
void quant_expert_products(const QuantExperts& q, const at::Tensor& x, const at::Tensor& scales, at::IntArrayRef counts,
                           at::Tensor out);
void quant_shared_product(const QuantExperts& q);

}  // namespace softnpu::ops::kernels
