// Boost.Test's program, linked into the tests of the runtime, of libhccl and of libopapi. One suite a file, named after it.
#define BOOST_TEST_MODULE anycend
#include <boost/test/included/unit_test.hpp>
