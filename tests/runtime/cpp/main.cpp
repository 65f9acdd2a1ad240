// The test program of the runtime's internals. One suite a file, named after it.
#define BOOST_TEST_MODULE runtime
#include <boost/test/included/unit_test.hpp>
