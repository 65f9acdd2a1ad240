#include "softnpu/ops/processor.h"

#include <boost/test/unit_test.hpp>

using namespace softnpu::ops;

BOOST_AUTO_TEST_SUITE(test_processor)

BOOST_AUTO_TEST_CASE(denormals_are_zero_while_the_flag_is_set) {
  const volatile float tiny = 1e-39F, half = 0.5F;
  BOOST_TEST((float_control() & kFlushesDenormals) == 0U);
  const FloatControl was = float_control();
  set_float_control(was | kFlushesDenormals);
  const volatile float flushed = tiny * half;
  set_float_control(was);
  const volatile float kept = tiny * half;
  BOOST_TEST((flushed == 0 && kept > 0));
}

BOOST_AUTO_TEST_SUITE_END()
