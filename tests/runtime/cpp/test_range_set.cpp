#include <boost/test/unit_test.hpp>

#include "softnpu/runtime/range_set.h"

using softnpu::RangeSet;

BOOST_AUTO_TEST_SUITE(test_range_set)

BOOST_AUTO_TEST_CASE(takes_the_smallest_range_that_fits) {
  RangeSet r;
  r.insert(0, 1000);
  r.insert(5000, 100);
  BOOST_TEST(*r.take(100, 1) == 5000u);
  BOOST_TEST(*r.take(100, 1) == 0u);
}

BOOST_AUTO_TEST_CASE(aligns_and_keeps_what_lies_before) {
  RangeSet r;
  r.insert(10, 2000);
  BOOST_TEST(*r.take(512, 512) == 512u);
  BOOST_TEST(*r.take(502, 1) == 10u);
}

BOOST_AUTO_TEST_CASE(neighbours_join) {
  RangeSet r;
  r.insert(0, 10);
  r.insert(20, 10);
  RangeSet::Range all = r.insert(10, 10);
  BOOST_TEST(all.offset == 0u);
  BOOST_TEST(all.size == 30u);
  BOOST_TEST(r.count() == 1u);
}

BOOST_AUTO_TEST_CASE(nothing_fits) {
  RangeSet r;
  r.insert(1, 511);
  BOOST_TEST(!r.take(512, 1));
  BOOST_TEST(!r.take(511, 512));
  BOOST_TEST(r.largest() == 511u);
}

BOOST_AUTO_TEST_SUITE_END()
