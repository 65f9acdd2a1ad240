#include "softnpu/sanitize/watched.h"

#include <boost/test/unit_test.hpp>

#include "acl/api.h"
#include "softnpu/race/accesses.h"
#include "softnpu/runtime/trace.h"

using namespace softnpu;
using sanitize::watchers;

namespace {

// No task runs meanwhile: one would ask the owners of bits that nobody owns.
struct Restored {
  Restored() : before_(watchers.word.exchange(0)) {}
  Restored(const Restored&) = delete;
  ~Restored() { watchers.word.store(before_); }

 private:
  uint32_t before_;
};

constexpr trace::Listener kNobody{[](const trace::Call&) noexcept {}, [](const trace::Record&) noexcept {},
                                  [](const trace::Mark&) noexcept {}};

}  // namespace

BOOST_AUTO_TEST_SUITE(test_watched)

BOOST_AUTO_TEST_CASE(a_forked_child_forgets_who_takes_locks_and_keeps_the_rest) {
  const Restored restored;
  constexpr uint32_t kStay = sanitize::kFaults | sanitize::kObservers | sanitize::kLimit;
  watchers.word.fetch_or(kStay);
  race::watch_for(race::kRaces | race::kMemory);
  BOOST_TEST_REQUIRE(trace::listen(&kNobody));
  race::stop();
  BOOST_TEST(!race::watched());
  BOOST_TEST(trace::on());
  trace::forget_listeners();
  BOOST_TEST(watchers.word.load() == kStay);
  trace::ignore(&kNobody);  // it is forgotten: nothing is counted down
  BOOST_TEST(watchers.word.load() == kStay);
}

BOOST_AUTO_TEST_CASE(listeners_are_counted_and_one_too_many_is_not) {
  const Restored restored;
  const trace::Listener more[5] = {kNobody, kNobody, kNobody, kNobody, kNobody};
  for (int i = 0; i < 4; ++i) BOOST_TEST(trace::listen(&more[i]));
  BOOST_TEST(!trace::listen(&more[4]));
  for (int i = 0; i < 4; ++i) {
    BOOST_TEST(trace::on());
    trace::ignore(&more[i]);
  }
  BOOST_TEST(watchers.word.load() == 0u);
}

BOOST_AUTO_TEST_CASE(no_limit_is_nothing_to_ask_for) {
  const Restored restored;
  BOOST_TEST(aclrtSetOpExecuteTimeOut(0) == 0);
  BOOST_TEST(!sanitize::watched(sanitize::kLimit));
  BOOST_TEST(aclrtSetOpExecuteTimeOut(1) == 0);
  BOOST_TEST(sanitize::watched(sanitize::kLimit));
  BOOST_TEST(aclrtSetOpExecuteTimeOut(0) == 0);
}

BOOST_AUTO_TEST_SUITE_END()
