// See watchdog.h.
#include "csrc/distributed/watchdog.h"

#include <c10/util/Logging.h>

#include <algorithm>
#include <condition_variable>
#include <cstdlib>
#include <thread>

#include "csrc/cann/checks.h"
#include "csrc/core/recovery.h"
#include "csrc/distributed/communicator.h"
#include "csrc/distributed/settings.h"

namespace npu::distributed {
namespace {

constexpr auto kRound = std::chrono::milliseconds(100);
constexpr auto kTearDownGrace = std::chrono::seconds(30);

struct Watchdog {
  std::mutex mutex;
  std::condition_variable wake;
  bool stop = false, running = false;
  std::vector<std::shared_ptr<Watched>> groups;
  std::thread thread;
};

Watchdog& dog() {
  static auto* const the = new Watchdog;
  return *the;
}

void run() {
  Watchdog& d = dog();
  std::unique_lock<std::mutex> lock(d.mutex);
  while (!d.stop) {
    d.wake.wait_for(lock, kRound, [&] { return d.stop; });
    const auto groups = d.groups;
    lock.unlock();
    std::vector<std::shared_ptr<Watched>> closed;
    for (const auto& g : groups)
      if (!g->check()) closed.push_back(g);
    lock.lock();
    for (const auto& g : closed) d.groups.erase(std::remove(d.groups.begin(), d.groups.end(), g), d.groups.end());
  }
}

}  // namespace

void watch(std::shared_ptr<Watched> group) {
  Watchdog& d = dog();
  std::lock_guard<std::mutex> lock(d.mutex);
  d.groups.push_back(std::move(group));
  if (d.running) return;
  d.running = true;
  d.stop = false;
  d.thread = std::thread(run);
}

void stop_watchdog() {
  Watchdog& d = dog();
  {
    std::lock_guard<std::mutex> lock(d.mutex);
    if (!d.running) return;
    d.running = false;
    d.stop = true;
  }
  d.wake.notify_all();
  d.thread.join();
  recorder::finish_dumps();
}

void Watched::add(c10::intrusive_ptr<WorkHCCL> work, const std::vector<at::Tensor>& inputs, bool message) {
  const auto recorded = recorder::record(group_, *work, inputs, message);
  std::lock_guard<std::mutex> lock(mutex_);
  works_.push_back({std::move(work), recorded});
}

void Watched::add(std::shared_ptr<Communicator> communicator) {
  std::lock_guard<std::mutex> lock(mutex_);
  const bool known = std::find(communicators_.begin(), communicators_.end(), communicator) != communicators_.end();
  if (!known) communicators_.push_back(std::move(communicator));
}

Watched::Entries Watched::all_works() {
  for (const Entry& e : works_) recorder::retire(e.recorded);
  return std::exchange(works_, {});
}

void Watched::close() {
  Entries works;
  Communicators communicators;
  std::lock_guard<std::mutex> lock(mutex_);
  closed_ = true;
  works = all_works();
  communicators.swap(communicators_);
}

void Watched::reset(bool communicators) {
  Entries works;
  Communicators ended;
  std::lock_guard<std::mutex> lock(mutex_);
  works = all_works();
  if (communicators) ended.swap(communicators_);
  error_.clear();
}

std::string Watched::error() const {
  std::lock_guard<std::mutex> lock(mutex_);
  return error_;
}

std::exception_ptr Watched::wait_for_all() {
  std::unique_lock<std::mutex> lock(mutex_);
  std::vector<c10::intrusive_ptr<WorkHCCL>> works;
  for (const Entry& e : works_) works.push_back(e.work);
  lock.unlock();
  std::exception_ptr first;
  for (const auto& work : works) {
    while (!work->isCompleted()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    if (!first) first = work->exception();
  }
  return first;
}

void Watched::fail_works() {
  const auto error = std::make_exception_ptr(
      c10::DistBackendError({__func__, __FILE__, static_cast<uint32_t>(__LINE__)}, "ProcessGroupHCCL: " + error_));
  for (const Entry& e : works_) e.work->fail(error);
}

void Watched::fail(const std::string& reason) {
  std::lock_guard<std::mutex> lock(mutex_);
  if (error_.empty()) {
    error_ = reason;
    failed_ = std::chrono::steady_clock::now();
  }
  fail_works();
}

bool Watched::check() {
  const cann::OwnQuestion own;
  Entries done;
  std::unique_lock<std::mutex> lock(mutex_);
  if (closed_) return false;
  if (any_stopped()) return true;  // its works have failed, and the program is about to say so to the group (reinit)
  std::erase_if(works_, [&](Entry& e) {
    if (!e.work->isCompleted()) return false;
    recorder::retire(e.recorded);
    done.push_back(std::move(e));
    return true;
  });
  if (error_.empty()) {
    for (const auto& c : communicators_)
      if (auto error = c->async_error()) error_ = *error;
    for (const Entry& e : works_)
      if (error_.empty() && e.work->overdue()) error_ = e.work->describe() + " was not done within the group's timeout";
    if (error_.empty()) return true;
    failed_ = std::chrono::steady_clock::now();
    LOG(ERROR) << "ProcessGroupHCCL: " << error_;
    recorder::dump_after_failure(rank_);
  }
  fail_works();
  if (settings().tear_down && std::chrono::steady_clock::now() - failed_ > kTearDownGrace) {
    LOG(ERROR) << "ProcessGroupHCCL: the group failed " << kTearDownGrace.count()
               << " s ago and still exists; ending the process (TORCH_HCCL_ASYNC_ERROR_HANDLING=0 leaves it alone): "
               << error_;
    std::abort();
  }
  return true;
}

}  // namespace npu::distributed
