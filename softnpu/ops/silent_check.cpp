// See silent_check.h.
#include "softnpu/ops/silent_check.h"

#include <algorithm>
#include <cmath>

#include "acl/api.h"
#include "softnpu/ops/kernels.h"
#include "softnpu/ops/shapes.h"

// Variadic, so no row of the ABI's table makes it.
extern "C" void aclAppLog(aclLogLevel level, const char* func, const char* file, uint32_t line, const char* fmt, ...);

namespace softnpu::ops::kernels {
namespace {

enum Level { kNothing, kFault, kWarning };

void need_one(const char* name, const Tensor& t) {
  TORCH_CHECK(t.numel() == 1, name, " has ", t.numel(), " elements, not one");
}

void need_state(const Tensor& val, const Tensor& step, int64_t detect, const Tensor& result) {
  need_one("val", val);
  need_one("stepRef", step);
  need_one("result", result);
  need_number("npuAsdDetect", detect, {1, 2, 3});
}

double number(const Tensor& t) { return t.item().toDouble(); }

// Logs; false where a fault ends the stream.
bool goes_on(Level level, double val, int64_t step, int64_t detect) {
  constexpr const char* kWords[] = {"nothing", "a fault", "a warning"};
  if (level != kNothing || detect == 3) {
    aclAppLog(level == kFault     ? ACL_ERROR
              : level == kWarning ? ACL_WARNING
                                  : ACL_INFO,
              "SilentCheck", __FILE__, __LINE__, "step %lld, value %g: %s", static_cast<long long>(step), val,
              kWords[level]);
  }
  return level != kFault || detect == 1;
}

[[noreturn]] void end(double val, int64_t step) {
  TORCH_CHECK(false, "silent data corruption: value ", val, " at step ", step,
              " is beyond the limit of a fault; go back to the last checkpoint, or let npuAsdDetect 1 go on");
}

}  // namespace

void check_silent(const Tensor& val, const Tensor& seen, const Tensor& step, int64_t detect, const Tensor& result) {
  need_state(val, step, detect, result);
  need_sizes("sfdaRef", seen, {3});
}

void silent_check(const Tensor& val, Tensor& seen, Tensor& step, const SilentLimits& limits, int64_t detect,
                  Tensor& result) {
  const double x = number(val), before = number(seen[0]), smallest = number(seen[1]), largest = number(seen[2]);
  const int64_t n = step.item().toLong();
  const bool judged = n >= limits.steps;
  const auto beyond = [&](double limit, double jump) {
    return x > limit || (judged && std::abs(x - before) > jump * (largest - smallest));
  };
  const Level level = !std::isfinite(x) || beyond(limits.first, limits.first_jump) ? kFault
                      : beyond(limits.second, limits.second_jump)                  ? kWarning
                                                                                   : kNothing;
  if (!goes_on(level, x, n, detect)) end(x, n);
  result.fill_(static_cast<int64_t>(level));
  if (!std::isfinite(x) || x > limits.first) return;
  seen[0].fill_(x);
  if (n == 0 || x < smallest) seen[1].fill_(x);
  if (n == 0 || x > largest) seen[2].fill_(x);
  step.add_(1);
}

void check_silent_average(const Tensor& val, const Tensor& largest, const Tensor& average, const Tensor& step,
                          double beta, int64_t detect, const Tensor& result) {
  need_state(val, step, detect, result);
  need_one("max", largest);
  need_one("avgRef", average);
  TORCH_CHECK(beta > 0 && beta < 1, "beta1 is ", beta, ", not between 0 and 1");
}

void silent_average(const Tensor& val, Tensor& average, Tensor& gradient, Tensor& step, const SilentLimits& limits,
                    double beta, int64_t detect, Tensor& result) {
  const double x = number(val), kept = number(average);
  const int64_t n = step.item().toLong();
  TORCH_CHECK(n >= 0, "stepRef is ", n);
  const double mean = n == 0 ? kept : kept / (1 - std::pow(beta, static_cast<double>(n)));
  const Level level = !std::isfinite(x) || x > mean * limits.first ? kFault
                      : x > mean * limits.second                   ? kWarning
                                                                   : kNothing;
  if (!goes_on(level, x, n, detect)) {
    if (n == 0) gradient.zero_();
    end(x, n);
  }
  result.fill_(static_cast<int64_t>(level));
  if (!std::isfinite(x)) return;
  average.fill_(beta * kept + (1 - beta) * x);
  step.add_(1);
}

}  // namespace softnpu::ops::kernels
