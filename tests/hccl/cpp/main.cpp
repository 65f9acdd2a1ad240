// The test program of libhccl with threads as ranks.
#define BOOST_TEST_MODULE hccl
#include <boost/test/included/unit_test.hpp>
