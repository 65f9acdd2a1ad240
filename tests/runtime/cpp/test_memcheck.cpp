// The memory checker below the C ABI: which bytes count as written, blocks, fences, several threads at once.
#include "softnpu/memcheck/memcheck.h"

#include <array>
#include <boost/test/unit_test.hpp>
#include <string>
#include <thread>
#include <vector>

#include "acl/soft.h"
#include "softnpu/memcheck/written.h"
#include "tests/runtime/cpp/touching.h"

using namespace softnpu;

namespace {

// Says nothing, and writes one byte.
struct Silent {
  char* byte;
  static int run(void* state) noexcept {
    *static_cast<Silent*>(state)->byte = 1;
    return 0;
  }
};

// The texts since the last call.
std::vector<std::string> found() {
  static uint64_t before = 0;
  std::vector<std::string> fresh;
  for (; before < memcheck::found(); ++before) fresh.emplace_back(memcheck::report(before));
  return fresh;
}

bool says(const std::vector<std::string>& texts, const std::string& words) {
  return texts.size() == 1 && texts[0].find(words) != std::string::npos;
}

alignas(512) char memory[8192];

}  // namespace

BOOST_AUTO_TEST_SUITE(test_memcheck)

BOOST_AUTO_TEST_CASE(bytes_are_counted_once) {
  memcheck::Written w(200);
  BOOST_TEST(w.missing(0, 200) == 200u);
  w.add(3, 130);
  w.add(100, 140);
  BOOST_TEST(w.missing(0, 200) == 63u);
  BOOST_TEST(w.missing(64, 128) == 0u);
  BOOST_TEST(w.missing(139, 141) == 1u);
  w.add(0, 3);
  w.add(140, 200);
  BOOST_TEST(w.missing(0, 200) == 0u);
}

BOOST_AUTO_TEST_CASE(a_block_from_given_to_freed) {
  memcheck::start(false);
  TestStream made;
  Stream& stream = made;
  softnpuBlockGiven(memory, 100, 512, made.handle);
  sync(stream);
  BOOST_TEST(static_cast<unsigned char>(memory[99]) == 0xFF);
  BOOST_TEST(static_cast<unsigned char>(memory[100]) == 0xB5);
  touch(stream, "readsFresh", memory, false, 40);
  BOOST_TEST(says(found(), "reads 40 bytes"));
  touch(stream, "writes", memory, true, 50);
  touch(stream, "readsWritten", memory, false, 50);
  BOOST_TEST(found().empty());
  touch(stream, "readsMore", memory, false, 60);
  BOOST_TEST(says(found(), "nobody has written 10"));
  touch(stream, "passesTheEnd", memory, true, 101);
  BOOST_TEST(says(found(), "1 byte behind the end"));
  stream.submit(Work({Silent::run, nullptr, nullptr, "silent", Cost::kTiny}, Silent{memory + 99}));
  sync(stream);
  BOOST_TEST(found().empty());
  touch(stream, "readsWhatItMayHaveWritten", memory, false, 100);
  BOOST_TEST(found().empty());
  stream.submit(Work({Silent::run, nullptr, nullptr, "silent", Cost::kTiny}, Silent{memory + 103}));
  sync(stream);
  BOOST_TEST(says(found(), "silent wrote behind a block, at byte 3 after its end"));
  softnpuBlockBack(memory);
  touch(stream, "readsFreed", memory, false, 4);
  BOOST_TEST(says(found(), "of memory that was freed"));
}

BOOST_AUTO_TEST_CASE(threads_with_blocks_of_their_own_are_silent) {
  memcheck::start(false);
  std::array<TestStream, 4> streams;
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i)
    threads.emplace_back([&, i] {
      char* const mine = memory + 2048 * i;
      for (int round = 0; round < 200; ++round) {
        softnpuBlockGiven(mine, 700, 1024, streams[size_t(i)].handle);
        touch(streams[size_t(i)], "writes", mine, true, 700);
        touch(streams[size_t(i)], "reads", mine + 100, false, 600);
        softnpuBlockBack(mine);
      }
    });
  for (std::thread& thread : threads) thread.join();
  for (TestStream& stream : streams) sync(stream);
  BOOST_TEST(found().empty());
}

BOOST_AUTO_TEST_SUITE_END()
