#include "softnpu/runtime/utilization.h"

#include <boost/test/unit_test.hpp>

using namespace softnpu;

namespace {

RegistryRecord process(int pid, int device, uint64_t busy) {
  return {pid, int16_t(device), 0, 0, 0, uint64_t(pid), "test", busy};
}

int percent(const RegistryView& before, const RegistryView& after) { return Utilization::percent(1, before, after); }

}  // namespace

BOOST_AUTO_TEST_SUITE(test_utilization)

BOOST_AUTO_TEST_CASE(an_idle_device_is_at_zero_and_any_work_is_above) {
  BOOST_TEST(percent({1000, {}}, {2000, {}}) == 0);
  BOOST_TEST(percent({1000, {process(1, 1, 500)}}, {2000, {process(1, 1, 500)}}) == 0);
  BOOST_TEST(percent({1000, {process(1, 1, 500)}}, {2000, {process(1, 1, 501)}}) == 1);
  BOOST_TEST(percent({1000, {process(1, 1, 500)}}, {2000, {process(1, 1, 750)}}) == 25);
}

BOOST_AUTO_TEST_CASE(work_that_goes_on_counts_up_to_now) {
  const uint64_t since_1500 = kBusyNow | 1500;
  BOOST_TEST(percent({1000, {process(1, 1, 0)}}, {2000, {process(1, 1, since_1500)}}) == 50);
  BOOST_TEST(percent({1600, {process(1, 1, since_1500)}}, {2000, {process(1, 1, since_1500)}}) == 100);
}

BOOST_AUTO_TEST_CASE(processes_add_up_and_devices_do_not) {
  const RegistryView before{1000, {process(1, 1, 0), process(2, 1, 0), process(3, 0, 0)}};
  BOOST_TEST(percent(before, {2000, {process(1, 1, 200), process(2, 1, 300), process(3, 0, 900)}}) == 50);
  BOOST_TEST(percent(before, {2000, {process(1, 1, 900), process(2, 1, 900)}}) == 100);
}

BOOST_AUTO_TEST_CASE(who_came_counts_and_who_went_does_not) {
  BOOST_TEST(percent({1000, {}}, {2000, {process(1, 1, 400)}}) == 40);
  BOOST_TEST(percent({1000, {process(1, 1, 0)}}, {2000, {}}) == 0);
  RegistryRecord same_pid = process(1, 1, 100);
  same_pid.started_ns = 7;  // another process of that number
  BOOST_TEST(percent({1000, {process(1, 1, 90)}}, {2000, {same_pid}}) == 10);
}

BOOST_AUTO_TEST_CASE(nonsense_stays_a_percentage) {
  for (uint64_t busy : {~uint64_t{0}, kBusyNow, ~uint64_t{0} >> 1, uint64_t{0}}) {
    const int p = percent({1000, {process(1, 1, 17)}}, {2000, {process(1, 1, busy)}});
    BOOST_TEST((p >= 0 && p <= 100));
  }
  BOOST_TEST(percent({2000, {process(1, 1, 0)}}, {1000, {process(1, 1, 9)}}) <= 100);
}

BOOST_AUTO_TEST_SUITE_END()
