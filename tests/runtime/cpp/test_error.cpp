#include "softnpu/runtime/error.h"

#include <boost/test/unit_test.hpp>
#include <new>
#include <stdexcept>
#include <string>

#include "tests/runtime/cpp/fixture.h"

using namespace softnpu;

BOOST_AUTO_TEST_SUITE(test_error)

BOOST_AUTO_TEST_CASE(what_leaves_a_call_is_a_status_and_its_text) {
  const auto is = [](int found, int code, const std::string& text) {
    BOOST_TEST(found == code);
    BOOST_TEST(std::string(take_recent_message()) == text);
  };
  const auto failing = [] { fail(107000, "%d is too many", 3); };
  const auto foreign = [] { throw std::runtime_error("why it is so"); };
  const auto nameless = [] { throw 3; };
  is(guarded("call", failing), 107000, "call: 3 is too many");
  is(guarded("call", foreign), 500000, "call: why it is so");
  is(guarded("call", [] { throw std::bad_alloc(); }), 200000, "call: the host is out of memory");
  is(guarded("call", nameless), 500000, "call: internal error");
  is(guarded("call", [] {}), 0, "");
  is(guarded_always("call", failing), 107000, "call: 3 is too many");
  is(guarded_always("call", foreign), 500000, "call: why it is so");
  is(guarded_always("call", nameless), 500000, "call: internal error");
}

BOOST_AUTO_TEST_SUITE_END()
