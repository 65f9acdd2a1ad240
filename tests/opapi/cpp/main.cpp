// The test program of libopapi's parts that need no torch.
#define BOOST_TEST_MODULE opapi
#include <boost/test/included/unit_test.hpp>
