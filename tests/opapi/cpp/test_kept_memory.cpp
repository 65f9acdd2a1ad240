#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <boost/test/unit_test.hpp>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <thread>
#include <vector>

#include "softnpu/ops/kept_memory.h"

using softnpu::ops::KeptMemory;

BOOST_AUTO_TEST_SUITE(test_kept_memory)

BOOST_AUTO_TEST_CASE(a_block_comes_back_for_a_like_request) {
  void* first = KeptMemory::take(1 << 20);
  BOOST_TEST(reinterpret_cast<uintptr_t>(first) % 64 == 0U);
  void* second = KeptMemory::take(1 << 20);
  BOOST_TEST(first != second);
  BOOST_TEST(KeptMemory::give_back(first));
  BOOST_TEST(KeptMemory::take((1 << 20) - 5000) == first);
  BOOST_TEST(KeptMemory::give_back(first));
  void* small = KeptMemory::take(256 << 10);  // a quarter of it: too wasteful
  BOOST_TEST(small != first);
  BOOST_TEST(KeptMemory::give_back(small));
  BOOST_TEST(KeptMemory::give_back(second));
}

BOOST_AUTO_TEST_CASE(foreign_memory_and_a_second_return_are_refused) {
  std::vector<char> mine(1 << 20);
  BOOST_TEST(!KeptMemory::give_back(mine.data()));
  BOOST_TEST(!KeptMemory::give_back(nullptr));
  void* block = KeptMemory::take(1 << 20);
  BOOST_TEST(KeptMemory::give_back(block));
  BOOST_TEST(!KeptMemory::give_back(block));
}

BOOST_AUTO_TEST_CASE(what_exceeds_the_limit_is_not_kept) {
  std::vector<void*> blocks;
  const size_t size = KeptMemory::kMost / 4;
  for (int i = 0; i < 6; i++) blocks.push_back(KeptMemory::take(size));
  for (void* block : blocks) BOOST_TEST(KeptMemory::give_back(block));
  // A request beyond any memory is refused, not fatal.
  BOOST_TEST(KeptMemory::take(SIZE_MAX / 2) == nullptr);
}

BOOST_AUTO_TEST_CASE(threads_share_it) {
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; t++) {
    threads.emplace_back([t] {
      for (int i = 0; i < 500; i++) {
        const size_t bytes = (size_t(128) << 10) * (1 + (i + t) % 5);
        auto* block = static_cast<char*>(KeptMemory::take(bytes));
        std::memset(block, t, bytes);
        for (size_t k = 0; k < bytes; k += 4096) {
          if (block[k] != t) std::abort();
        }
        KeptMemory::give_back(block);
      }
    });
  }
  for (auto& thread : threads) thread.join();
}

BOOST_AUTO_TEST_CASE(a_forked_child_does_not_wait_for_threads_it_does_not_have) {
  std::atomic<bool> stop{false};
  std::thread busy([&] {
    while (!stop) KeptMemory::give_back(KeptMemory::take(256 << 10));
  });
  void* mine = KeptMemory::take(256 << 10);
  int wrong = 0;
  for (int i = 0; i < 50; i++) {
    const pid_t child = fork();
    if (child == 0) {
      alarm(10);                                         // a deadlock ends the child with a signal
      const bool foreign = KeptMemory::give_back(mine);  // the parent's: left to free()
      _exit(foreign || !KeptMemory::give_back(KeptMemory::take(256 << 10)));
    }
    int status = -1;
    waitpid(child, &status, 0);
    wrong += status != 0;
  }
  BOOST_TEST(wrong == 0);
  stop = true;
  busy.join();
  BOOST_TEST(KeptMemory::give_back(mine));
}

BOOST_AUTO_TEST_SUITE_END()
