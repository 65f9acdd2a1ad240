// One thread for all groups of the process: it forgets works that are done, and turns an error of a communicator into that of the
// works that wait for it. If the program has not destroyed the group half a minute after, the process ends, so that a launcher
// sees the job fail instead of hang (unless TORCH_HCCL_ASYNC_ERROR_HANDLING=0).
#pragma once

#include <exception>
#include <memory>
#include <string>
#include <vector>

#include "csrc/core/stream.h"
#include "csrc/distributed/recorder.h"
#include "csrc/distributed/work.h"

namespace npu::distributed {

class Communicator;

// What the watchdog needs of a group; it may outlive the group for a moment.
class Watched {
 public:
  explicit Watched(recorder::Group group, int rank) : group_(std::move(group)), rank_(rank) {}
  // `inputs` and whether it is a message are for the record.
  void add(c10::intrusive_ptr<WorkHCCL> work, const std::vector<at::Tensor>& inputs, bool message);
  void add(std::shared_ptr<Communicator> communicator);
  void close();                          // the group is destroyed: nothing here matters any more
  std::string error() const;             // empty while all is well
  bool check();                          // the watchdog's round; false when closed
  std::exception_ptr wait_for_all();     // until every work is done or failed; the first failure
  void fail(const std::string& reason);  // all works that are not done; the first reason stays
  void reset(bool communicators);        // forgets the failure and all works; the communicators only if they are gone

 private:
  struct Entry {
    c10::intrusive_ptr<WorkHCCL> work;
    std::optional<size_t> recorded;
  };
  // What leaves works_ dies without mutex_: an output's end may want the interpreter.
  using Entries = std::vector<Entry>;
  void fail_works();
  Entries all_works();

  const recorder::Group group_;
  const int rank_;
  mutable std::mutex mutex_;
  bool closed_ = false;
  Entries works_;
  Communicators communicators_;
  std::string error_;
  std::chrono::steady_clock::time_point failed_;
};

void watch(std::shared_ptr<Watched> group);
NPU_API void stop_watchdog();  // before the interpreter ends

}  // namespace npu::distributed
