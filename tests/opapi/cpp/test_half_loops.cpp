#include <algorithm>
#include <bit>
#include <boost/test/unit_test.hpp>
#include <cmath>
#include <cstdint>
#include <vector>

#include "softnpu/ops/half_loops.h"

using namespace softnpu::ops::kernels;

namespace {

double value(uint16_t half) {
  const int exponent = half >> 10 & 31, mantissa = half & 1023;
  const double magnitude = exponent == 31  ? (mantissa != 0 ? NAN : INFINITY)
                           : exponent == 0 ? std::ldexp(mantissa, -24)
                                           : std::ldexp(1024 + mantissa, exponent - 25);
  return half >> 15 != 0 ? -magnitude : magnitude;
}

// The nearest half, ties to the even one. Halves of one sign are ordered as their bits are.
uint16_t nearest(float x) {
  const double magnitude = std::fabs(static_cast<double>(x));
  uint16_t below = 0;
  for (uint16_t bit = 1 << 14; bit != 0; bit >>= 1) {
    if (const uint16_t next = below | bit; next < 0x7c00 && value(next) <= magnitude) below = next;
  }
  const double above = below == 0x7bff ? 65536 : value(below + 1);  // from there on an infinity
  const double down = magnitude - value(below), up = above - magnitude;
  return (below + (up < down || (up == down && below % 2 == 1))) | (std::signbit(x) ? 0x8000 : 0);
}

}  // namespace

BOOST_AUTO_TEST_SUITE(test_half_loops, *boost::unit_test::precondition([](auto) { return converts_halves(); }))

BOOST_AUTO_TEST_CASE(every_half_is_widened) {
  std::vector<uint16_t> halves(65535 + 4);  // and a rest that fills no register
  for (size_t i = 0; i < halves.size(); i++) halves[i] = static_cast<uint16_t>(i);
  std::vector<float> floats(halves.size());
  widen_halves(halves.data(), floats.data(), static_cast<int64_t>(halves.size()));
  int wrong = 0;
  for (size_t i = 0; i < halves.size(); i++) {
    const double want = value(halves[i]);
    const bool same = want == floats[i] && std::signbit(want) == std::signbit(floats[i]);
    wrong += std::isnan(want) ? !std::isnan(floats[i]) : !same;
  }
  BOOST_TEST(wrong == 0);
}

BOOST_AUTO_TEST_CASE(floats_become_the_nearest_half) {
  std::vector<float> floats;
  for (uint64_t bits = 0; bits < uint64_t{1} << 32; bits += 40993) {
    floats.push_back(std::bit_cast<float>(static_cast<uint32_t>(bits)));
  }
  for (uint16_t half = 0; half < 0x7bff; half++) {
    floats.push_back(static_cast<float>((value(half) + value(half + 1)) / 2));  // a tie
  }
  for (const float edge : {65504.0F, 65519.996F, 65520.0F, -65520.0F, 65536.0F, INFINITY, -0.0F})
    floats.push_back(edge);
  std::vector<uint16_t> halves(floats.size());
  narrow_floats(floats.data(), halves.data(), static_cast<int64_t>(floats.size()));
  int wrong = 0;
  for (size_t i = 0; i < floats.size(); i++) {
    wrong += std::isnan(floats[i]) ? !std::isnan(value(halves[i])) : halves[i] != nearest(floats[i]);
  }
  BOOST_TEST(wrong == 0);
}

BOOST_AUTO_TEST_SUITE_END()
