// See detect.h.
#include "csrc/ops/npu/detect.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/constant_pad_nd.h>
#include <ATen/ops/maximum.h>
#include <ATen/ops/minimum.h>
#include <ATen/ops/where.h>

#include <cmath>

#include "csrc/ops/npu/overlaps.h"
#include "csrc/ops/npu/sizes.h"
#include "csrc/ops/npu/sparse_rows.h"
#include "csrc/ops/npu/wide.h"

namespace npu::ops {
namespace {

constexpr double kSamples = 1 << 24;  // of one region: each is held in memory while they are summed

void check_grid(const char* op, const at::Tensor& rois, const RegionGrid& g) {
  need_sizes(op, "rois", rois, {-1, 5});
  check_number(op, "roi_end_mode", g.end_mode, {0});
  TORCH_CHECK_NOT_IMPLEMENTED(g.samples > 0, op, ": sample_num ", g.samples,
                              ", samples that follow a region's size, is not implemented; give their number");
  TORCH_CHECK_VALUE(g.height > 0 && g.width > 0, op, ": a grid of ", g.height, " x ", g.width);
  TORCH_CHECK_VALUE(std::isfinite(g.scale), op, ": spatial_scale is ", g.scale, "; it has to be finite");
  const double samples = static_cast<double>(g.height) * static_cast<double>(g.width) * static_cast<double>(g.samples) *
                         static_cast<double>(g.samples);
  TORCH_CHECK_VALUE(samples <= kSamples, op, ": sample_num ", g.samples, " makes ", samples,
                    " samples of each region; at most ", kSamples, " are");
}

}  // namespace

Pair chosen_boxes(const at::Tensor& boxes, const at::Tensor& scores, const at::Scalar& most, const at::Tensor& overlap,
                  const at::Tensor& least) {
  const char* const op = "npu_nms_v4";
  need_sizes(op, "input", boxes, {-1, 4});
  need_sizes(op, "scores", scores, {boxes.sym_size(0)});
  need_elements(op, "iou_threshold", overlap, {1});
  need_elements(op, "scores_threshold", least, {1});
  const int64_t count = most.toLong(), n = known(boxes, 0);
  TORCH_CHECK_VALUE(count >= 0, op, ": max_output_size is ", count);
  const auto number = [](const at::Tensor& t) { return wide(t.detach()).reshape({}); };
  const at::Tensor score = wide(scores.detach());
  const at::Tensor order = std::get<1>(score.sort(/*stable=*/true, 0, /*descending=*/true));
  const at::Tensor above = overlaps(wide(boxes.detach()).index_select(0, order)).gt(number(overlap));
  at::Tensor alive = score.index_select(0, order).gt(number(least));
  const at::Tensor place = at::arange(n, order.options());
  for (int64_t i = 0; i < n; ++i) {
    const at::Tensor hit = above[i].logical_and(alive[i]).logical_and(place.gt(i));
    alive = alive.logical_and(hit.logical_not());
  }
  // The boxes that are left come first, in the order of their scores.
  const at::Tensor left = alive.logical_and(alive.to(at::kLong).cumsum(0).le(count));
  const at::Tensor first = std::get<1>(left.to(at::kInt).sort(/*stable=*/true, 0, /*descending=*/true));
  const at::Tensor index = at::where(left.index_select(0, first), order.index_select(0, first), 0);
  const int64_t kept = std::min(count, n);
  const at::Tensor chosen = at::constant_pad_nd(index.narrow(0, 0, kept), {0, count - kept});
  return {chosen.to(at::kInt), left.sum().to(at::kInt)};
}

void check_regions(const at::Tensor& input, const at::Tensor& rois, const RegionGrid& grid) {
  const char* const op = "npu_roi_align";
  need_dims(op, "input", input, {4});
  check_grid(op, rois, grid);
  const c10::SymBool none = (rois.sym_size(0) * input.sym_size(1)).sym_eq(0);
  TORCH_SYM_CHECK(none.sym_or(input.sym_numel().sym_gt(0)), op, ": input is empty, ", input.sym_sizes(),
                  ", and rois names ", rois.sym_size(0), " regions of it; give images with pixels, or no regions");
}

void check_regions_backward(const at::Tensor& grad, const at::Tensor& rois, at::IntArrayRef sizes,
                            const RegionGrid& grid) {
  const char* const op = "npu_roi_alignbk";
  TORCH_CHECK_VALUE(sizes.size() == 4, op, ": xdiff_shape ", sizes, " has not four sizes");
  check_grid(op, rois, grid);
  need_sizes(op, "input", grad, {rois.sym_size(0), sizes[1], grid.height, grid.width});
}

void advance_step(const at::Tensor& tokens, const at::Tensor& sampled, const at::Tensor& positions,
                  const at::Tensor& lengths, const at::Tensor& slots, const at::Tensor& tables, StepNumbers n,
                  const OptionalTensor& speculated, const OptionalTensor& accepted) {
  const char* const op = "npu_advance_step_flashattn";
  TORCH_CHECK_VALUE(n.sequences > 0 && n.queries > 0 && n.queries <= n.sequences && n.block > 0, op, ": num_seqs ",
                    n.sequences, ", num_queries ", n.queries, " and block_size ", n.block);
  TORCH_CHECK_VALUE(given(speculated) == given(accepted), op, ": spec_token and accepted_num go together");
  need_sizes(op, "block_tables", tables, {n.sequences, -1});
  for (const auto& [name, t] : {std::pair{"input_tokens", &tokens},
                                {"sampled_token_ids", &sampled},
                                {"input_positions", &positions},
                                {"seq_lens", &lengths},
                                {"slot_mapping", &slots},
                                {"block_tables", &tables}}) {
    need_type(op, name, *t, {at::kLong});
  }
  need_rows(op, "block_tables", tables, 1, "seq_lens", lengths);
  const auto slot = [&](const at::Tensor& place, int64_t rows) {
    const at::Tensor column = place.div(n.block, "floor").clamp(0, known(tables, 1) - 1);
    return tables.narrow(0, 0, rows).gather(1, column) * n.block + place.remainder(n.block);
  };
  if (!given(speculated)) {
    for (const auto& [name, t] : {std::pair{"input_tokens", &tokens},
                                  {"input_positions", &positions},
                                  {"seq_lens", &lengths},
                                  {"slot_mapping", &slots}}) {
      need_sizes(op, name, *t, {n.sequences});
    }
    need_sizes(op, "sampled_token_ids", sampled, {n.queries, 1});
    const auto rows = [&](const at::Tensor& t) { return writable(t).narrow(0, 0, n.queries); };
    const at::Tensor place = rows(lengths).clone();
    rows(tokens).copy_(sampled.squeeze(1));
    rows(positions).copy_(place);
    rows(lengths).copy_(place + 1);
    rows(slots).copy_(slot(place.unsqueeze(1), n.queries).squeeze(1));
    return;
  }
  TORCH_CHECK_VALUE(n.queries == n.sequences, op, ": num_queries is num_seqs, ", n.sequences, ", with spec_token");
  const c10::SymInt columns = tokens.dim() == 2 ? tokens.sym_size(1) : c10::SymInt(0);
  for (const auto& [name, t] : {std::pair{"input_tokens", &tokens},
                                {"input_positions", &positions},
                                {"seq_lens", &lengths},
                                {"slot_mapping", &slots},
                                {"sampled_token_ids", &sampled}}) {
    need_sizes(op, name, *t, {n.sequences, columns});
  }
  need_sizes(op, "spec_token", speculated, {n.sequences, columns - 1});
  need_sizes(op, "accepted_num", accepted, {n.sequences});
  need_type(op, "spec_token", speculated, {at::kLong});
  const at::Tensor taken = accepted->to(at::kLong).unsqueeze(1);
  // The last token of a request that was accepted is the one behind the accepted guesses.
  writable(tokens).copy_(at::cat({sampled.gather(1, taken), *speculated}, 1));
  const at::Tensor place = positions + 1 + taken;
  writable(positions).copy_(place);
  writable(lengths).copy_(place + 1);
  writable(slots).copy_(slot(place, n.sequences));
}

}  // namespace npu::ops
