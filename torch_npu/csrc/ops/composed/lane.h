// A number of a function's source text that is a whole tensor: PyTorch's scalar templates of special functions (ATen/native/Math.h)
// run with it as their type, so that the device computes by the same formulas. A comparison of lanes answers one way at a time:
// explore() runs the function once for each way through its branches and chooses results by where the comparisons hold. What it
// is not: for functions with many branches or loops until something has converged, beyond a series that stops at epsilon, which
// gets kTerms terms. Who uses it: special.cpp.
#pragma once

#include <ATen/core/Tensor.h>

#include <cmath>
#include <functional>
#include <limits>
#include <vector>

namespace npu::lane {

// The ways through a function's branches: which answers were given, where they hold.
class Paths {
 public:
  bool decide(const at::Tensor& condition);
  bool next_term() { return ++terms_ % kTerms != 0; }
  void begin();
  bool advance();  // to the next way; false after the last
  const at::Tensor& mask() const { return mask_; }

 private:
  static constexpr int kTerms = 24;
  std::vector<bool> answers_;
  size_t at_ = 0;
  int terms_ = 0;
  at::Tensor mask_;
};

Paths& paths();  // of the exploration on this thread

class Lane {
 public:
  Lane(double number = 0) : number_(number) {}  // NOLINT: converts as a number does
  explicit Lane(at::Tensor tensor, bool never_negative = false)
      : never_negative_(never_negative), tensor_(std::move(tensor)) {}

  static Lane epsilon() {
    Lane result(std::numeric_limits<double>::epsilon());
    result.is_epsilon_ = true;
    return result;
  }

  bool is_number() const { return !tensor_.defined(); }
  bool is_epsilon() const { return is_epsilon_; }
  bool never_negative() const { return never_negative_; }
  double number() const { return number_; }
  const at::Tensor& tensor() const { return tensor_; }
  at::Tensor like(const at::Tensor& model) const;

  Lane operator-() const { return is_number() ? Lane(-number_) : Lane(tensor_.neg()); }
  Lane& operator+=(const Lane& o);
  Lane& operator-=(const Lane& o);
  Lane& operator*=(const Lane& o);
  Lane& operator/=(const Lane& o);

 private:
  double number_ = 0;
  bool is_epsilon_ = false;
  bool never_negative_ = false;
  at::Tensor tensor_;
};

Lane operator+(const Lane& a, const Lane& b);
Lane operator-(const Lane& a, const Lane& b);
Lane operator*(const Lane& a, const Lane& b);
Lane operator/(const Lane& a, const Lane& b);
bool operator<(const Lane& a, const Lane& b);
bool operator<=(const Lane& a, const Lane& b);
bool operator>(const Lane& a, const Lane& b);
bool operator>=(const Lane& a, const Lane& b);
bool operator==(const Lane& a, const Lane& b);
inline Lane& Lane::operator+=(const Lane& o) { return *this = *this + o; }
inline Lane& Lane::operator-=(const Lane& o) { return *this = *this - o; }
inline Lane& Lane::operator*=(const Lane& o) { return *this = *this * o; }
inline Lane& Lane::operator/=(const Lane& o) { return *this = *this / o; }

Lane abs(const Lane& x);
Lane cos(const Lane& x);
Lane exp(const Lane& x);
Lane log(const Lane& x);
Lane sin(const Lane& x);
Lane sqrt(const Lane& x);
bool isinf(const Lane& x);
bool isnan(const Lane& x);

// f of each element of x, a double tensor. Of one that is never negative, the ways for negative numbers are left out: a function
// that calls itself there would not end.
at::Tensor explore(const std::function<Lane(Lane)>& f, const at::Tensor& x, bool never_negative);

}  // namespace npu::lane

template <>
struct std::numeric_limits<npu::lane::Lane> {
  static npu::lane::Lane epsilon() { return npu::lane::Lane::epsilon(); }
  static npu::lane::Lane infinity() { return std::numeric_limits<double>::infinity(); }
  static npu::lane::Lane quiet_NaN() { return std::numeric_limits<double>::quiet_NaN(); }
};
