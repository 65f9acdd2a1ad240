// One thread for all groups of the process: it forgets works that are done, and turns an error of a communicator into that of the
// works that wait for it. If the program has not destroyed the group half a minute after, the process ends, so that a launcher
// sees the job fail instead of hang.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "csrc/core/stream.h"
#include "csrc/distributed/work.h"

namespace npu::distributed {

class Communicator;

// What the watchdog needs of a group; it may outlive the group for a moment.
class Watched {
 public:
  void add(c10::intrusive_ptr<WorkHCCL> work);
  void add(std::shared_ptr<Communicator> communicator);
  void close();               // the group is destroyed: nothing here matters any more
  std::string error() const;  // empty while all is well
  bool check();               // the watchdog's round; false when closed
  void wait_for_all();        // until every work is done or failed

 private:
  mutable std::mutex mutex_;
  bool closed_ = false;
  std::vector<c10::intrusive_ptr<WorkHCCL>> works_;
  std::vector<std::shared_ptr<Communicator>> communicators_;
  std::string error_;
  std::chrono::steady_clock::time_point failed_;
};

void watch(std::shared_ptr<Watched> group);
NPU_API void stop_watchdog();  // before the interpreter ends

}  // namespace npu::distributed
