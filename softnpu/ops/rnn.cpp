// Recurrent cells, one pass over each row of gates. The workspace of a cell's forward call holds the activated gates
// [batch, 4 * hidden] in the order input, forget, cell, output; the backward call reads it. Computed in fp32 for 16-bit types.
#include <ATen/Parallel.h>
#include <ATen/ops/add.h>
#include <ATen/ops/zeros_like.h>

#include <algorithm>

#include "softnpu/ops/rnn_row.h"
#include "softnpu/ops/rnn_tensor.h"

namespace softnpu::ops::kernels {

namespace {

constexpr int64_t kGrain = 4096;  // gate values a thread

// Calls row(T, b) for each row of the batch, with T the type to compute in.
template <class Row>
void for_each_row(const Tensor& cx, Row row) {
  if (cx.numel() == 0) return;
  at::parallel_for(0, cx.size(0), std::max<int64_t>(1, kGrain / (4 * cx.size(1))), [&](int64_t begin, int64_t end) {
    for (int64_t b = begin; b < end; b++) cx.scalar_type() == at::kDouble ? row(double{}, b) : row(float{}, b);
  });
}

// [batch, hidden] of the state; the gates are four times as wide.
void check_cell(const Tensor& state, const Tensor& gates, std::initializer_list<const Tensor*> others) {
  TORCH_CHECK(state.dim() == 2, "lstm_cell: the state has ", state.dim(), " dimensions, not 2");
  need_size(gates, {state.size(0), 4 * state.size(1)}, "lstm_cell: the gates");
  for (const Tensor* t : others) {
    if (t->defined()) need_size(*t, state.sizes(), "lstm_cell: a state or gradient");
  }
}

}  // namespace

void lstm_cell(const Tensor& input_gates, const Tensor& hidden_gates, const Tensor& cx,
               const OptionalTensor& input_bias, const OptionalTensor& hidden_bias, Tensor& hy, Tensor& cy,
               Tensor& storage) {
  check_cell(cx, storage, {&hy, &cy});
  const Tensor cell = plain(cx);
  Tensor h = room_for(hy), c = room_for(cy), gates = room_for(storage);
  at::add_out(gates, plain(input_gates), plain(hidden_gates));
  if (passed(input_bias)) gates.add_(plain(*input_bias));
  if (passed(hidden_bias)) gates.add_(plain(*hidden_bias));
  const int64_t n = cell.size(1);
  for_each_row(cell, [&]<class T>(T, int64_t b) {
    T* row = to_row<T>(gates, b, 4 * n);
    lstm_row(LstmRow<T>{row, at_row<T>(cell, b, n), row, row + n, row + 2 * n, row + 3 * n, to_row<T>(c, b, n), nullptr,
                        to_row<T>(h, b, n)},
             n);
  });
  arrive(hy, h);
  arrive(cy, c);
  arrive(storage, gates);
}

void lstm_cell_backward(const OptionalTensor& grad_hy, const OptionalTensor& grad_cy, const Tensor& cx,
                        const Tensor& cy, const Tensor& storage, bool has_bias, Tensor& grad_gates, Tensor& grad_cx,
                        Tensor& grad_bias) {
  const Tensor old = plain(cx), cell = plain(cy), gates = plain(storage);
  Tensor dh = plain(grad_hy), dc = plain(grad_cy);
  check_cell(cx, storage, {&cy, &dh, &dc, &grad_cx});
  need_size(grad_gates, storage.sizes(), "lstm_cell: the gradient of the gates");
  if (!dh.defined()) dh = at::zeros_like(old);
  Tensor d = room_for(grad_gates), dcx = room_for(grad_cx);
  dc.defined() ? dcx.copy_(dc) : dcx.zero_();
  const int64_t n = old.size(1);
  for_each_row(old, [&]<class T>(T, int64_t b) {
    const T* row = at_row<T>(gates, b, 4 * n);
    lstm_backward_row(LstmBackwardRow<T>{at_row<T>(dh, b, n), at_row<T>(old, b, n), at_row<T>(cell, b, n), row, row + n,
                                         row + 2 * n, row + 3 * n, to_row<T>(d, b, 4 * n), to_row<T>(dcx, b, n)},
                      n);
  });
  arrive(grad_gates, d);
  arrive(grad_cx, dcx);
  if (has_bias) put(grad_bias, d.sum(0));
}

}  // namespace softnpu::ops::kernels
