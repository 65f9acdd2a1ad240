#include "softnpu/runtime/error.h"

#include <boost/test/unit_test.hpp>
#include <new>
#include <stdexcept>
#include <string>

#include "tests/runtime/cpp/fixture.h"

using namespace softnpu;

BOOST_AUTO_TEST_SUITE(test_error)

BOOST_AUTO_TEST_CASE(what_leaves_a_call_is_a_status_and_its_text) {
  const auto told = [](auto body) { return std::pair(guarded("call", body), std::string(take_recent_message())); };
  const auto always = [](auto body) {
    return std::pair(guarded_always("call", body), std::string(take_recent_message()));
  };
  const auto is = [](std::pair<int, std::string> found, int code, const char* text) {
    BOOST_TEST(found.first == code);
    BOOST_TEST(found.second == text);
  };
  const auto failing = [] { fail(107000, "%d is too many", 3); };
  const auto foreign = [] { throw std::runtime_error("why it is so"); };
  const auto nameless = [] { throw 3; };
  is(told(failing), 107000, "call: 3 is too many");
  is(told(foreign), 500000, "call: why it is so");
  is(told([] { throw std::bad_alloc(); }), 200000, "call: the host is out of memory");
  is(told(nameless), 500000, "call: internal error");
  is(told([] {}), 0, "");
  is(always(failing), 107000, "call: 3 is too many");
  is(always(foreign), 500000, "call: why it is so");
  is(always(nameless), 500000, "call: internal error");
}

BOOST_AUTO_TEST_SUITE_END()
