// Arithmetic of lanes and the ways through branches. Thread safety: an exploration belongs to the thread that began it.
#include "csrc/ops/composed/lane.h"

#include "csrc/ops/composed/composed.h"

namespace npu::lane {
namespace {

thread_local Paths* current = nullptr;

template <class Numbers, class Tensors>
Lane combine(const Lane& a, const Lane& b, Numbers&& numbers, Tensors&& tensors) {
  if (a.is_number() && b.is_number()) return Lane(numbers(a.number(), b.number()));
  return Lane(tensors());
}

template <class Numbers, class Tensors>
bool compare(const Lane& a, const Lane& b, Numbers&& numbers, Tensors&& tensors) {
  if (a.is_number() && b.is_number()) return numbers(a.number(), b.number());
  if (a.is_epsilon() || b.is_epsilon()) return paths().next_term();
  return paths().decide(tensors());
}

template <class F, class G>
Lane map(const Lane& x, F&& number, G&& tensor) {
  return x.is_number() ? Lane(number(x.number())) : Lane(tensor(x.tensor()));
}

}  // namespace

Paths& paths() {
  TORCH_CHECK(current, "npu: a comparison of lanes outside of explore()");
  return *current;
}

bool Paths::decide(const at::Tensor& condition) {
  if (at_ == answers_.size()) answers_.push_back(true);
  const bool answer = answers_[at_++];
  const at::Tensor holds = answer ? condition : condition.logical_not();
  mask_ = mask_.defined() ? mask_.logical_and(holds) : holds;
  return answer;
}

void Paths::begin() {
  at_ = 0;
  terms_ = 0;
  mask_ = at::Tensor();
}

bool Paths::advance() {
  while (!answers_.empty() && !answers_.back()) answers_.pop_back();
  if (answers_.empty()) return false;
  answers_.back() = false;
  return true;
}

at::Tensor Lane::like(const at::Tensor& model) const {
  return is_number() ? model.new_empty(model.sizes()).fill_(number_) : tensor_;
}

Lane operator+(const Lane& a, const Lane& b) {
  return combine(a, b, std::plus<>(), [&] {
    return a.is_number()   ? b.tensor().add(a.number())
           : b.is_number() ? a.tensor().add(b.number())
                           : a.tensor().add(b.tensor());
  });
}

Lane operator-(const Lane& a, const Lane& b) {
  return combine(a, b, std::minus<>(), [&] {
    return a.is_number()   ? b.tensor().neg().add(a.number())
           : b.is_number() ? a.tensor().sub(b.number())
                           : a.tensor().sub(b.tensor());
  });
}

Lane operator*(const Lane& a, const Lane& b) {
  return combine(a, b, std::multiplies<>(), [&] {
    return a.is_number()   ? b.tensor().mul(a.number())
           : b.is_number() ? a.tensor().mul(b.number())
                           : a.tensor().mul(b.tensor());
  });
}

Lane operator/(const Lane& a, const Lane& b) {
  return combine(a, b, std::divides<>(), [&] {
    return a.is_number()   ? a.like(b.tensor()).div(b.tensor())
           : b.is_number() ? a.tensor().div(b.number())
                           : a.tensor().div(b.tensor());
  });
}

bool operator<(const Lane& a, const Lane& b) {
  if (a.never_negative() && b.is_number() && b.number() <= 0) return false;
  return compare(a, b, std::less<>(), [&] {
    return a.is_number()   ? b.tensor().gt(a.number())
           : b.is_number() ? a.tensor().lt(b.number())
                           : a.tensor().lt(b.tensor());
  });
}

bool operator<=(const Lane& a, const Lane& b) {
  return compare(a, b, std::less_equal<>(), [&] {
    return a.is_number()   ? b.tensor().ge(a.number())
           : b.is_number() ? a.tensor().le(b.number())
                           : a.tensor().le(b.tensor());
  });
}

bool operator>(const Lane& a, const Lane& b) { return b < a; }
bool operator>=(const Lane& a, const Lane& b) { return b <= a; }

bool operator==(const Lane& a, const Lane& b) {
  return compare(a, b, std::equal_to<>(), [&] {
    return a.is_number()   ? b.tensor().eq(a.number())
           : b.is_number() ? a.tensor().eq(b.number())
                           : a.tensor().eq(b.tensor());
  });
}

#define LANE_FUNCTION(f)                                                                          \
  Lane f(const Lane& x) {                                                                         \
    return map(x, [](double v) { return std::f(v); }, [](const at::Tensor& t) { return t.f(); }); \
  }
LANE_FUNCTION(abs)
LANE_FUNCTION(cos)
LANE_FUNCTION(exp)
LANE_FUNCTION(log)
LANE_FUNCTION(sin)
LANE_FUNCTION(sqrt)
#undef LANE_FUNCTION

bool isinf(const Lane& x) {
  return x.is_number() ? std::isinf(x.number()) : paths().decide(x.tensor().abs().eq(INFINITY));
}
bool isnan(const Lane& x) { return x.is_number() ? std::isnan(x.number()) : paths().decide(x.tensor().ne(x.tensor())); }

at::Tensor explore(const std::function<Lane(Lane)>& f, const at::Tensor& x, bool never_negative) {
  Paths ways;
  Paths* const before = std::exchange(current, &ways);
  const auto restore = std::unique_ptr<Paths, std::function<void(Paths*)>>(&ways, [&](Paths*) { current = before; });
  at::Tensor result;
  do {
    ways.begin();
    const at::Tensor value = f(Lane(x, never_negative)).like(x);
    result = result.defined() ? where(ways.mask(), value, result) : value;
  } while (ways.advance());
  return result;
}

}  // namespace npu::lane
