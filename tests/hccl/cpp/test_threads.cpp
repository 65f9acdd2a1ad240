// Ranks as threads of one process (HcclCommInitAll), so that ThreadSanitizer sees both sides of every word the ranks share.
// What it is not: a test of values in breadth (tests/hccl/test_*.py).
#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <memory>
#include <thread>
#include <vector>

#include "acl/api.h"
#include "hccl/api.h"

namespace {

constexpr int kRanks = 4;

struct World {
  World() {
    BOOST_REQUIRE_EQUAL(aclrtSetDevice(0), ACL_SUCCESS);
    BOOST_REQUIRE_EQUAL(HcclCommInitAll(kRanks, nullptr, comms), HCCL_SUCCESS);
  }
  ~World() {
    for (HcclComm c : comms) HcclCommDestroy(c);
  }
  // Runs body(rank, comm, stream) on a thread a rank, and waits for the streams.
  template <class Body>
  void run(Body body) {
    std::vector<std::thread> threads;
    for (int r = 0; r < kRanks; ++r)
      threads.emplace_back([&, r] {
        aclrtStream stream = nullptr;
        aclrtSetDevice(0);
        aclrtCreateStream(&stream);
        body(r, comms[r], stream);
        status[r] = aclrtSynchronizeStream(stream);
        aclrtDestroyStream(stream);
      });
    for (std::thread& t : threads) t.join();
  }
  HcclComm comms[kRanks] = {};
  int status[kRanks] = {};
};

struct Memory {
  explicit Memory(size_t count) {
    BOOST_REQUIRE_EQUAL(aclrtMalloc(reinterpret_cast<void**>(&data), count * sizeof(float), ACL_MEM_MALLOC_HUGE_FIRST),
                        ACL_SUCCESS);
  }
  ~Memory() { aclrtFree(data); }
  float* data = nullptr;
};

void all_reduce(size_t count, int rounds) {
  World world;
  std::vector<std::unique_ptr<Memory>> memory;
  for (int r = 0; r < kRanks; ++r) {
    memory.push_back(std::make_unique<Memory>(count));
    std::fill_n(memory[r]->data, count, static_cast<float>(r + 1));
  }
  world.run([&](int r, HcclComm comm, aclrtStream stream) {
    for (int i = 0; i < rounds; ++i) {
      HcclAllReduce(memory[r]->data, memory[r]->data, count, HCCL_DATA_TYPE_FP32, HCCL_REDUCE_MAX, comm, stream);
      HcclBroadcast(memory[r]->data, count, HCCL_DATA_TYPE_FP32, static_cast<uint32_t>(i % kRanks), comm, stream);
    }
  });
  for (int r = 0; r < kRanks; ++r) {
    BOOST_TEST(world.status[r] == 0);
    BOOST_TEST(memory[r]->data[0] == kRanks);
    BOOST_TEST(memory[r]->data[count - 1] == kRanks);
  }
}

}  // namespace

BOOST_AUTO_TEST_SUITE(hccl)

BOOST_AUTO_TEST_CASE(small_collectives) { all_reduce(100, 300); }

BOOST_AUTO_TEST_CASE(large_collectives) { all_reduce(300'000, 20); }

BOOST_AUTO_TEST_CASE(messages_around_the_ring) {
  for (const size_t count : {size_t{10}, size_t{100'000}}) {
    World world;
    std::vector<std::unique_ptr<Memory>> from, to;
    for (int r = 0; r < kRanks; ++r) {
      from.push_back(std::make_unique<Memory>(count)), to.push_back(std::make_unique<Memory>(count));
      std::fill_n(from[r]->data, count, static_cast<float>(r));
    }
    world.run([&](int r, HcclComm comm, aclrtStream stream) {
      for (int i = 0; i < 30; ++i) {
        HcclSendRecvItem items[2] = {
            {HCCL_SEND, from[r]->data, count, HCCL_DATA_TYPE_FP32, static_cast<uint32_t>((r + 1) % kRanks)},
            {HCCL_RECV, to[r]->data, count, HCCL_DATA_TYPE_FP32, static_cast<uint32_t>((r + kRanks - 1) % kRanks)}};
        HcclBatchSendRecv(items, 2, comm, stream);
      }
    });
    for (int r = 0; r < kRanks; ++r) {
      BOOST_TEST(world.status[r] == 0);
      BOOST_TEST(to[r]->data[count - 1] == (r + kRanks - 1) % kRanks);
    }
  }
}

BOOST_AUTO_TEST_CASE(a_disagreement_ends_every_rank) {
  World world;
  Memory memory(64);
  world.run([&](int r, HcclComm comm, aclrtStream stream) {
    HcclAllReduce(memory.data + r * 16, memory.data + r * 16, r == 2 ? 8 : 16, HCCL_DATA_TYPE_FP32, HCCL_REDUCE_SUM,
                  comm, stream);
  });
  for (int r = 0; r < kRanks; ++r) {
    BOOST_TEST(world.status[r] != 0);
    HcclResult error = HCCL_SUCCESS;
    HcclGetCommAsyncError(world.comms[r], &error);
    BOOST_TEST(error == HCCL_E_PARA);
  }
}

BOOST_AUTO_TEST_SUITE_END()
