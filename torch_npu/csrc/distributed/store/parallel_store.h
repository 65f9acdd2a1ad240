// ParallelStore: PyTorch's c10d::Store over the parallel store's server, and the server itself where asked for. Each object
// has one connection and does one thing at a time, like TCPStore's; clone() makes another.
#pragma once

#include <torch/csrc/distributed/c10d/Store.hpp>

#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "csrc/cann/export.h"
#include "csrc/core/torch_version.h"
#include "csrc/distributed/store/client.h"
#include "csrc/distributed/store/protocol.h"

namespace npu::distributed {

namespace store {
class Server;
}

struct ParallelStoreOptions {
  uint16_t port = 29500;
  bool is_server = false;
  std::optional<int64_t> world_size;
  bool wait_for_workers = true;
  bool multi_tenant = false;     // may share the server of this process at that port
  std::optional<int> listen_fd;  // a bound socket for the server
  std::optional<int64_t> proxy;  // process id: connect to its proxy instead
  std::chrono::milliseconds timeout = c10d::Store::kDefaultTimeout;
  // For what the server answers without waiting for anybody; then the connection is given up.
  std::chrono::milliseconds answer_timeout = std::chrono::minutes(5);
};

class NPU_API ParallelStore final : public HasBarrier<c10d::Store> {
 public:
  using Bytes = std::vector<uint8_t>;
  using Milliseconds = std::chrono::milliseconds;

  ParallelStore(std::string host, ParallelStoreOptions options);
  ~ParallelStore() override;

  c10::intrusive_ptr<c10d::Store> clone() override;
  using HasBarrier<c10d::Store>::barrier;
  using c10d::Store::compareSet;
  using c10d::Store::set;
  void set(const std::string& key, const Bytes& value) override;
  Bytes compareSet(const std::string& key, const Bytes& expected, const Bytes& desired) override;
  Bytes get(const std::string& key) override;
  int64_t add(const std::string& key, int64_t value) override;
  bool deleteKey(const std::string& key) override;
  bool check(const std::vector<std::string>& keys) override;
  int64_t getNumKeys() override;
  void wait(const std::vector<std::string>& keys) override { wait(keys, timeout_); }
  void wait(const std::vector<std::string>& keys, const Milliseconds& timeout) override;
  void append(const std::string& key, const Bytes& value) override;
  std::vector<Bytes> multiGet(const std::vector<std::string>& keys) override;
  void multiSet(const std::vector<std::string>& keys, const std::vector<Bytes>& values) override;
  bool hasExtendedApi() const override { return true; }
  void queuePush(const std::string& key, const Bytes& value) override;
  Bytes queuePop(const std::string& key, bool block) override;
  int64_t queueLen(const std::string& key) override;
  std::vector<std::string> listKeys() override;
  void barrier(const std::string& key, int64_t world_size, const Milliseconds& timeout) override;

  const std::string& host() const { return host_; }
  uint16_t port() const { return options_.port; }

 private:
  // Runs `talk(client)` alone, and turns its errors into PyTorch's, about `what`. It returns or throws Canceled once all answers are
  // read; after anything else the connection is lost: what comes late would be taken for the answer to the next request.
  template <class Talk>
  auto talk(const std::string& what, Talk&& talk);
  void lose(const std::string& what, const std::exception& error);
  // Sends what waits for others and reads kDone, and the value that follows it if one does. Throws Canceled once the wait
  // is taken back.
  std::string await(std::string_view request, Milliseconds timeout, bool value = false);
  void wait_for_workers();
  store::Deadline soon() const;

  std::string host_;
  ParallelStoreOptions options_;
  std::shared_ptr<store::Server> server_;
  std::mutex lock_;
  std::unique_ptr<store::Client> client_;  // null: lost
  std::string lost_;                       // and by what
};

}  // namespace npu::distributed
