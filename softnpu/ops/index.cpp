// Indexing: lists of index tensors with holes, scatter's reductions, embeddings.
#include <ATen/ops/_embedding_bag.h>
#include <ATen/ops/_index_put_impl.h>
#include <ATen/ops/aminmax_cpu_dispatch.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/embedding_dense_backward_cpu_dispatch.h>
#include <ATen/ops/gather_cpu_dispatch.h>
#include <ATen/ops/index.h>
#include <ATen/ops/index_select_cpu_dispatch.h>
#include <ATen/ops/scatter_cpu_dispatch.h>
#include <ATen/ops/scatter_reduce_cpu_dispatch.h>
#include <ATen/ops/searchsorted.h>
#include <ATen/ops/tensor.h>
#include <c10/core/WrapDimMinimal.h>

#include <optional>

#include "softnpu/ops/guard.h"
#include "softnpu/ops/hifloat8.h"
#include "softnpu/ops/kernels.h"
#include "softnpu/runtime/enqueue.h"

namespace softnpu::ops::kernels {

namespace {

// A dimension that is taken whole is a null member, or (the vendor's plugin) an empty tensor. A true empty index gives an
// empty result, and the callers below return before they get here.
c10::List<std::optional<Tensor>> indices_of(at::TensorList list) {
  c10::List<std::optional<Tensor>> indices;
  indices.reserve(list.size());
  for (const Tensor& t : list) {
    if (!t.defined() || t.numel() == 0) {
      indices.push_back(std::nullopt);
    } else {
      indices.push_back(t.scalar_type() == at::kBool || t.scalar_type() == at::kByte || t.scalar_type() == at::kLong
                            ? t
                            : t.to(at::kLong));
    }
  }
  return indices;
}

// ATen's thread count is OpenMP's, which is the calling thread's own.
class OneThread {
 public:
  OneThread() : before_(omp_get_max_threads()) { omp_set_num_threads(1); }
  OneThread(const OneThread&) = delete;
  ~OneThread() { omp_set_num_threads(before_); }

 private:
  int before_;
};

}  // namespace

Tensor checked_index(const Tensor& index, int64_t size, const char* what) {
  Tensor places = longs(index);
  if (places.numel() == 0) return places;
  const auto [low, high] = at::cpu::aminmax(places);
  const int64_t first = *low.const_data_ptr<int64_t>(), last = *high.const_data_ptr<int64_t>();
  TORCH_CHECK(first >= 0 && last < size, what, ": index ", first < 0 ? first : last, " is out of range for ", size,
              " elements");
  return places;
}

void index(const Tensor& self, at::TensorList list, Tensor& out) {
  if (out.numel() != 0) put(out, at::index(self, indices_of(list)));
}

void index_put(Tensor& self, at::TensorList list, const Tensor& values, bool accumulate) {
  if (values.numel() == 0) return;
  bool any = false;
  for (const Tensor& t : list) any |= t.defined() && t.numel() != 0;
  if (!any) return;
  // ATen adds float32 values from several threads as they come; one thread adds them in their order.
  std::optional<OneThread> ordered;
  if (accumulate && deterministic()) ordered.emplace();
  at::_index_put_impl_(self, indices_of(list), values, accumulate, /*unsafe=*/false);
}

void gather_v3(const Tensor& self, int64_t dim, const Tensor& index, int64_t batch_dims, Tensor& out) {
  dim = c10::maybe_wrap_dim(dim, self.dim());
  if (batch_dims < 0) batch_dims += index.dim();
  TORCH_CHECK(batch_dims >= 0 && batch_dims <= index.dim(), "batchDims ", batch_dims, " is not a number of dimensions");
  if (batch_dims == 0) {
    auto shape = self.sizes().vec();
    shape.erase(shape.begin() + dim);
    shape.insert(shape.begin() + dim, index.sizes().begin(), index.sizes().end());
    return put(out, at::cpu::index_select(self, dim, index.reshape({-1})).view(shape));
  }
  TORCH_CHECK(batch_dims <= dim, "batchDims ", batch_dims, " is beyond dim ", dim);
  int64_t batches = self.size(0);
  TORCH_CHECK(index.size(0) == batches && out.size(0) == batches, "batch sizes differ");
  for (int64_t b = 0; b < batches; b++) {
    Tensor part = out.select(0, b);
    gather_v3(self.select(0, b), dim - 1, index.select(0, b), batch_dims - 1, part);
  }
}

void scatter(const Tensor& self, int64_t dim, const Tensor& index, const Tensor& source, int64_t reduce, Tensor& out) {
  if (reduce == 0) {
    at::cpu::scatter_outf(self, dim, index, source, out);
  } else {
    at::cpu::scatter_outf(self, dim, index, source, reduce == 1 ? "add" : "multiply", out);
  }
}

void scatter_value(const Tensor& self, int64_t dim, const Tensor& index, const Scalar& value, int64_t reduce,
                   Tensor& out) {
  if (reduce == 0) {
    at::cpu::scatter_outf(self, dim, index, value, out);
  } else {
    at::cpu::scatter_outf(self, dim, index, value, reduce == 1 ? "add" : "multiply", out);
  }
}

void scatter_reduce(const Tensor& self, int64_t dim, const Tensor& index, const Tensor& source, int64_t reduce,
                    bool include_self, Tensor& out) {
  static constexpr std::string_view kNames[] = {"", "sum", "prod", "amax", "amin", "mean"};
  if (reduce == 0) return at::cpu::scatter_outf(self, dim, index, source, out), void();
  TORCH_CHECK(reduce > 0 && reduce <= 5,
              "reduce must be 0 (none), 1 (add), 2 (mul), 3 (max), 4 (min) or 5 (mean), not ", reduce);
  at::cpu::scatter_reduce_outf(self, dim, index, source, kNames[reduce], include_self, out);
}

void scatter_nd_update(Tensor& self, const Tensor& indices, const Tensor& updates) {
  int64_t depth = indices.size(-1);
  Tensor flat = indices.reshape({-1, depth}).to(at::kLong);
  c10::List<std::optional<Tensor>> list;
  for (int64_t d = 0; d < depth; d++) list.push_back(flat.select(1, d));
  std::vector<int64_t> shape{flat.size(0)};
  for (int64_t d = depth; d < self.dim(); d++) shape.push_back(self.size(d));
  Tensor place = moved_bits(self);  // which is written in its own memory
  at::_index_put_impl_(place, list, moved_bits(updates).reshape(shape), false, false);
}

void embedding(const Tensor& weight, const Tensor& indices, Tensor& out) {
  Tensor flat = indices.reshape({-1});
  if (out.is_contiguous()) {
    Tensor rows = out.view({flat.numel(), weight.size(1)});
    at::cpu::index_select_outf(weight, 0, flat, rows);
  } else {
    put(out, at::cpu::index_select(weight, 0, flat).view(out.sizes()));
  }
}

void embedding_dense_backward(const Tensor& gradient, const Tensor& indices, int64_t rows, int64_t padding, bool scale,
                              Tensor& out) {
  // -1 is "no padding index" and arrives as an unsigned number.
  put(out, at::cpu::embedding_dense_backward(gradient, checked_index(indices, rows, "embedding_dense_backward"), rows,
                                             padding, scale));
}

void embedding_bag(const Tensor& weight, const Tensor& indices, const Tensor& offsets, const EmbeddingBagOptions& o,
                   const EmbeddingBagResults& results) {
  // ATen's fast path takes the caller's word for these.
  const Tensor begins = longs(offsets).contiguous();
  const auto* begin = begins.const_data_ptr<int64_t>();
  const int64_t bag_count = begins.numel() - (o.last_offset ? 1 : 0), n = indices.numel();
  TORCH_CHECK(begins.numel() == 0 || begin[0] == 0, "embedding_bag: offsets[0] must be 0, got ",
              begins.numel() ? begin[0] : 0);
  for (int64_t i = 1; i < begins.numel(); ++i)
    TORCH_CHECK(begin[i - 1] <= begin[i], "embedding_bag: offsets must not decrease, got ", begin[i], " behind ",
                begin[i - 1]);
  TORCH_CHECK(begins.numel() == 0 || begin[begins.numel() - 1] <= n,
              "embedding_bag: the last offset must be at most the number of indices, ", n, ", got ",
              begin[begins.numel() - 1]);
  if (bag_count == 0) {
    if (results.bags.defined()) results.bags.zero_();
    return;
  }
  auto [out, bags, sizes, largest] = at::_embedding_bag(weight, indices, offsets, o.scale_by_frequency, o.mode,
                                                        o.sparse, o.weights, o.last_offset, o.padding);
  put(results.out, out);
  // ATen needs no bag of each index where it sums whole rows, and leaves it out.
  if (bags.numel() != indices.numel())
    bags = at::searchsorted(offsets, at::arange(indices.numel(), offsets.options()), false, true)
               .sub(1)
               .to(indices.scalar_type());
  put_if_fits(results.bags, bags);
  put_if_fits(results.sizes, sizes);
  put_if_fits(results.largest, largest);
}

Tensor long_tensor(IntArrayRef values) { return at::tensor(values, at::TensorOptions().dtype(at::kLong)); }

}  // namespace softnpu::ops::kernels
