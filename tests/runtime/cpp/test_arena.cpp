#include "softnpu/runtime/arena.h"

#include <sys/stat.h>

#include <boost/test/unit_test.hpp>
#include <cstring>
#include <thread>
#include <vector>

#include "softnpu/runtime/error.h"

using namespace softnpu;

namespace {

constexpr uint64_t kMiB = 1 << 20;

uint64_t backed(const Arena& a) {
  struct stat s;
  fstat(a.fd(), &s);
  return uint64_t(s.st_blocks) * 512;
}

bool out_of_memory(const Error& e) { return e.code == 207001; }

}  // namespace

BOOST_AUTO_TEST_SUITE(test_arena)

BOOST_AUTO_TEST_CASE(nothing_is_backed_before_the_first_block) {
  Arena a(60, 64 * kMiB);
  BOOST_TEST(backed(a) == 0u);
}

BOOST_AUTO_TEST_CASE(small_blocks_share_a_page_and_are_aligned) {
  Arena a(60, 64 * kMiB);
  void* p = a.allocate(1, 64);
  void* q = a.allocate(1, 64);
  BOOST_TEST(a.offset(p) % Arena::kGrain == 0u);
  BOOST_TEST(a.offset(q) - a.offset(p) == Arena::kGrain);
  BOOST_TEST(a.committed() == Arena::kPage);
  BOOST_TEST(a.used() == 2 * Arena::kGrain);
}

BOOST_AUTO_TEST_CASE(large_blocks_begin_at_a_page) {
  Arena a(60, 64 * kMiB);
  a.allocate(100, 64);
  BOOST_TEST(a.offset(a.allocate(3 * kMiB, 64)) % Arena::kPage == 0u);
}

BOOST_AUTO_TEST_CASE(capacity_is_hard_and_an_error_leaves_everything_as_it_was) {
  Arena a(60, 64 * kMiB);
  void* p = a.allocate(40 * kMiB, 64);
  BOOST_CHECK_EXCEPTION(a.allocate(40 * kMiB, 64), Error, out_of_memory);
  BOOST_TEST(a.used() == 40 * kMiB);
  a.release(p);
  memset(a.allocate(64 * kMiB, 64), 1, 64 * kMiB);
}

BOOST_AUTO_TEST_CASE(freeing_twice_is_an_error) {
  Arena a(60, 64 * kMiB);
  void* p = a.allocate(100, 64);
  a.release(p);
  BOOST_CHECK_EXCEPTION(a.release(p), Error, [](const Error& e) { return e.code == 207002; });
}

BOOST_AUTO_TEST_CASE(find_knows_the_block_around_a_pointer) {
  Arena a(60, 64 * kMiB);
  char* p = static_cast<char*>(a.allocate(1000, 64));
  BOOST_TEST(a.find(p + 999).size == 1000u);
  BOOST_TEST(a.find(p + 1024).taken == 0u);
  a.release(p);
  BOOST_TEST(a.find(p).taken == 0u);
}

BOOST_AUTO_TEST_CASE(freed_pages_beyond_the_watermark_go_back) {
  Arena a(60, 2048 * kMiB);
  void* p = a.allocate(768 * kMiB, 64);
  BOOST_TEST(backed(a) == 768 * kMiB);
  a.release(p);
  BOOST_TEST(backed(a) == 512 * kMiB);
  BOOST_TEST(a.committed() == 512 * kMiB);
  a.release_all();
  BOOST_TEST(backed(a) == 0u);
}

BOOST_AUTO_TEST_CASE(exported_pages_are_not_punched) {
  Arena a(60, 1024 * kMiB);
  void* p = a.allocate(8 * kMiB, 64);
  a.keep_backed(a.offset(p), 8 * kMiB);
  a.release(p);
  a.release_all();
  BOOST_TEST(backed(a) == 8 * kMiB);
}

BOOST_AUTO_TEST_CASE(many_threads_allocate_and_free) {
  Arena a(60, 128 * kMiB);
  std::vector<std::thread> threads;
  std::atomic<int> bad{0};
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&, t] {
      for (int i = 0; i < 200; ++i) {
        size_t n = size_t(1 + (i * 7919 + t) % 100000);
        auto* p = static_cast<unsigned char*>(a.allocate(n, 64));
        memset(p, t, n);
        if (p[0] != t || p[n - 1] != t) ++bad;
        a.release(p);
      }
    });
  for (auto& t : threads) t.join();
  BOOST_TEST(bad == 0);
  BOOST_TEST(a.used() == 0u);
}

BOOST_AUTO_TEST_SUITE_END()
