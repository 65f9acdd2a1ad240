#include <boost/test/unit_test.hpp>
#include <cstdint>
#include <tuple>
#include <vector>

#include "softnpu/ops/panel_rows.h"

using namespace softnpu::ops::kernels;

BOOST_AUTO_TEST_SUITE(test_panel_rows)

using Types = std::tuple<float, double>;

// Small whole numbers: each sum is exact, in any order.
BOOST_AUTO_TEST_CASE_TEMPLATE(rows_times_a_panel, T, Types) {
  constexpr int64_t kColumns = 128 / sizeof(T), kDepth = 5, kStride = 7, kSpace = kColumns + 3;
  for (const int64_t rows : {1, 2, 3, 8}) {
    std::vector<T> a(rows * kStride), panel(kDepth * kColumns), c(rows * kSpace);
    for (size_t i = 0; i < a.size(); i++) a[i] = static_cast<T>(i % 11) - 5;
    for (size_t i = 0; i < panel.size(); i++) panel[i] = static_cast<T>(i % 13) - 6;
    for (size_t i = 0; i < c.size(); i++) c[i] = static_cast<T>(i % 5);
    std::vector<T> want = c;
    for (int64_t r = 0; r < rows; r++) {
      for (int64_t column = 0; column < kColumns; column++) {
        for (int64_t k = 0; k < kDepth; k++) {
          want[r * kSpace + column] += a[r * kStride + k] * panel[k * kColumns + column];
        }
      }
    }
    all_rows<T, 2>(a.data(), kStride, rows, panel.data(), kDepth, c.data(), kSpace);
    BOOST_TEST(c == want, boost::test_tools::per_element());
  }
}

BOOST_AUTO_TEST_SUITE_END()
