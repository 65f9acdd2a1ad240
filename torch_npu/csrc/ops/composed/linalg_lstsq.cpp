// Least squares by singular values: the shortest of the best solutions, which is what each of LAPACK's drivers gives. In double
// precision. What is read back: that the matrices are finite (aclnnSvd takes no others); of `gels` that their rank is full, of `gelsd`
// and `gelss` the same, since whether there are residuals depends on it. Who calls it: PyTorch's dispatcher.
#include <ATen/ExpandUtils.h>
#include <ATen/ops/_linalg_check_errors.h>
#include <torch/library.h>

#include <algorithm>
#include <limits>
#include <string>

#include "csrc/core/device.h"
#include "csrc/core/empty.h"
#include "csrc/ops/composed/composed.h"
#include "csrc/ops/composed/doubles.h"
#include "csrc/ops/device_check.h"
#include "csrc/ops/storage.h"

namespace npu {
namespace {

using Four = std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor>;
using Driver = std::optional<c10::string_view>;

double epsilon(at::ScalarType type) {
  const at::ScalarType real = c10::isComplexType(type) ? c10::toRealValueType(type) : type;
  TORCH_CHECK(real == at::kFloat || real == at::kDouble,
              "This function doesn't handle types other than float and double");
  return real == at::kFloat ? std::numeric_limits<float>::epsilon() : std::numeric_limits<double>::epsilon();
}

std::string driver_of(const Driver& driver) {
  if (!driver) return "gelsy";
  std::string name(driver->data(), driver->size());
  std::transform(name.begin(), name.end(), name.begin(), [](unsigned char c) { return std::tolower(c); });
  TORCH_CHECK(name == "gels" || name == "gelsy" || name == "gelsd" || name == "gelss",
              "torch.linalg.lstsq: parameter `driver` should be one of (gels, gelsy, gelsd, gelss)");
  return name;
}

std::vector<int64_t> with(at::IntArrayRef batch, std::initializer_list<int64_t> sizes) {
  std::vector<int64_t> result = batch.vec();
  result.insert(result.end(), sizes);
  return result;
}

// Which singular values count, as a share of the largest: LAPACK's rules for each driver. Less than zero: the machine's precision, also of
// `gelsy`, which has no such rule and divides by zero. `gelsy` keeps the first in any case.
double share_of(const std::string& name, std::optional<double> rcond, double precision, int64_t longest) {
  const double share = rcond.value_or(precision * static_cast<double>(longest));
  if (name == "gels") return 0;
  if (name == "gelsd") return share <= 0 || share >= 1 ? precision / 2 : share;
  return share < 0 ? precision : share;
}

Four lstsq(const at::Tensor& input, const at::Tensor& other, std::optional<double> rcond, Driver driver) {
  TORCH_CHECK(input.dim() >= 2, "torch.linalg.lstsq: input must have at least 2 dimensions.");
  TORCH_CHECK(other.dim() >= 1, "torch.linalg.lstsq: other must have at least 1 dimension.");
  TORCH_CHECK(input.scalar_type() == other.scalar_type(),
              "torch.linalg.lstsq: Expected input and other to have the same dtype, but got input's dtype ",
              input.scalar_type(), " and other's dtype ", other.scalar_type());
  const int64_t more = input.dim() - other.dim();
  TORCH_CHECK(0 <= more && more <= 1,
              "torch.linalg.lstsq: input.dim() must be greater or equal to other.dim() and "
              "(input.dim() - other.dim()) <= 1");
  // PyTorch's rule: a vector for each matrix, and none that is repeated. What else has a dimension less is one matrix for all, whose rows
  // are, where the batch is sized, taken for one.
  const bool is_vector = other.dim() == 1 || (more == 1 && other.sizes() == input.sizes().slice(0, input.dim() - 1));
  const at::Tensor right = is_vector ? other.unsqueeze(-1) : other;
  const int64_t m = input.size(-2), n = input.size(-1), k = std::min(m, n), columns = right.size(-1);
  TORCH_CHECK(m == right.size(-2), is_vector ? "torch.linalg.lstsq: input.size(-2) should match other.size(-1)"
                                             : "torch.linalg.lstsq: input.size(-2) should match other.size(-2)");
  const at::IntArrayRef matrices = input.sizes().slice(0, input.dim() - 2);  // that is, without repetition
  const std::vector<int64_t> batch = at::infer_size(matrices, other.sizes().slice(0, other.dim() - 2 + more));
  const std::string name = driver_of(driver);
  const at::ScalarType type = input.scalar_type(), real = c10::isComplexType(type) ? c10::toRealValueType(type) : type;
  const double share = share_of(name, rcond, epsilon(type), std::max(m, n));
  const NPUGuard guard(input.device().index());

  const at::Tensor a = wide(input), b = wide(right).expand(with(batch, {m, columns}));
  at::Tensor x = b.new_zeros(with(batch, {n, columns}));
  at::Tensor values = at::Tensor(b.new_zeros(with(matrices, {k}), b.options().dtype(at::kDouble)));
  at::Tensor rank = at::Tensor(b.new_zeros(matrices, b.options().dtype(at::kLong)));
  const bool is_nothing = a.numel() == 0 || c10::multiply_integers(batch) == 0;
  if (!is_nothing) {
    const auto [u, s, vh] = singular_values(a, false, true);
    values = s;
    const at::Tensor most = s.amax(-1, true);
    if (name == "gels") {  // which does not ask for the rank, but divides by what is zero
      const at::Tensor zero = s.le(most.mul(std::numeric_limits<double>::epsilon())).logical_and(most.gt(0));
      const at::Tensor first = zero.sum(-1).neg().add(k + 1);
      at::_linalg_check_errors(first.masked_fill(first.gt(k), 0).to(at::kInt), "torch.linalg.lstsq", matrices.empty());
    }
    const at::Tensor by_share = name == "gelsy" ? s.ge(most.mul(std::min(share, 1.0))) : s.gt(most.mul(share));
    const at::Tensor kept = by_share.logical_and(s.gt(0));
    rank = kept.sum(-1);
    const at::Tensor inverse = kept.to(at::kDouble).div(where(kept, s, 1.0)).unsqueeze(-1);
    x = product(vh.mH(), product(u.mH(), b).mul(inverse));
  }
  at::Tensor residuals = empty({0}, real);
  const bool has_rest = m > n && name != "gelsy" && (name == "gels" || is_nothing || rank.eq(n).all().item<bool>());
  if (has_rest) residuals = b.sub(product(a, x)).abs().square().sum(-2).to(real);
  // As LAPACK leaves it: in the memory of the right sides, column by column.
  const at::Tensor room = at::Tensor(empty(with(batch, {columns, std::max(m, n)}), type)).mT().slice(-2, 0, n);
  room.copy_(x);
  const bool has_values = name == "gelsd" || name == "gelss";
  return {is_vector ? room.squeeze(-1) : room, residuals, name == "gels" ? at::Tensor(empty({0}, at::kLong)) : rank,
          has_values ? values.to(real) : at::Tensor(empty({0}, real))};
}

void give_part(const at::Tensor& out, const at::Tensor& result) {
  resize_out(out, result.sizes());
  out.copy_(result);
}

std::tuple<at::Tensor&, at::Tensor&, at::Tensor&, at::Tensor&> lstsq_out(
    const at::Tensor& input, const at::Tensor& other, std::optional<double> rcond, Driver driver, at::Tensor& solution,
    at::Tensor& residuals, at::Tensor& rank, at::Tensor& singular_values) {
  const at::ScalarType type = input.scalar_type(), real = c10::isComplexType(type) ? c10::toRealValueType(type) : type;
  const auto check = [](const at::Tensor& out, at::ScalarType result, const char* name) {
    TORCH_CHECK(c10::canCast(result, out.scalar_type()), "torch.linalg.lstsq: Expected ", name,
                " to be safely castable from ", result, " dtype, but got ", name, " with dtype ", out.scalar_type());
  };
  check(solution, type, "solution");
  check(residuals, real, "residuals");
  check(rank, at::kLong, "rank");
  check(singular_values, real, "singular_values");
  const auto [x, rest, ranks, values] = lstsq(input, other, rcond, driver);
  give_part(solution, x);
  give_part(residuals, rest);
  give_part(rank, ranks);
  give_part(singular_values, values);
  return {solution, residuals, rank, singular_values};
}

}  // namespace

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("linalg_lstsq", NPU_FN(lstsq));
  m.impl("linalg_lstsq.out", NPU_FN(lstsq_out));
}

}  // namespace npu
