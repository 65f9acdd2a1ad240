// See work.h.
#include "csrc/distributed/work.h"

#include <ATen/core/ivalue.h>
#include <c10/core/StreamGuard.h>

#include <algorithm>
#include <thread>

#include "csrc/cann/checks.h"
#include "csrc/core/device.h"
#include "csrc/distributed/communicator.h"
#include "csrc/distributed/settings.h"

namespace npu::distributed {
namespace {

// After its timeout a work waits so long for the library's error, which names the rank that it waited for.
constexpr auto kWaitGrace = std::chrono::seconds(2);

// The watchdog may have seen the end before. For the race detector, too, the program has its answer only now.
void ask_for_order(const std::vector<PooledEvent>& ends) {
  const cann::Checks* checks = cann::watched.load(std::memory_order_relaxed);
  if (!checks || !checks->race) return;
  for (const PooledEvent& end : ends) {
    aclrtEventRecordedStatus status{};
    cann::acl().aclrtQueryEventStatus(end.get(), &status);
  }
}

}  // namespace

WorkHCCL::WorkHCCL(WorkInfo info)
    : Work(info.rank, info.type, info.title), info_(std::move(info)), began_(std::chrono::steady_clock::now()) {
  ends_.reserve(info_.streams.size());
  for (const c10::Stream& stream : info_.streams) {
    ends_.emplace_back(stream.device_index());
    record_event(ends_.back().get(), stream);
  }
}

bool WorkHCCL::isCompleted() {
  std::lock_guard<std::mutex> lock(mutex_);
  if (completed_) ask_for_order(ends_);
  if (completed_ || exception_) return true;
  try {
    const NPUGuard guard(device());
    completed_ = std::all_of(ends_.begin(), ends_.end(), [](const PooledEvent& e) { return query_event(e.get()); });
    // A stream that failed runs on to its events, too.
    for (const auto& c : info_.communicators)
      if (const auto error = completed_ ? c->async_error() : std::nullopt) {
        completed_ = false;
        C10_THROW_ERROR(DistBackendError, "ProcessGroupHCCL: " + *error);
      }
  } catch (...) {  // the stream failed: so did this
    exception_ = std::current_exception();
  }
  return completed_ || exception_;
}

bool WorkHCCL::isSuccess() const {
  std::lock_guard<std::mutex> lock(mutex_);
  if (completed_) ask_for_order(ends_);
  return completed_ && !exception_;
}

void WorkHCCL::fail(std::exception_ptr error) {
  isCompleted();  // what is done stays done
  std::lock_guard<std::mutex> lock(mutex_);
  if (!completed_ && !exception_) exception_ = std::move(error);
}

void WorkHCCL::rethrow() {
  std::lock_guard<std::mutex> lock(mutex_);
  if (exception_) std::rethrow_exception(exception_);
}

bool WorkHCCL::overdue() const { return std::chrono::steady_clock::now() - began_ > info_.timeout + kWaitGrace; }

std::string WorkHCCL::describe() const {
  return c10::str(c10d::opTypeToString(info_.type), " (number ", info_.sequence, " of the group, rank ", info_.rank,
                  ")");
}

void WorkHCCL::synchronize() {
  rethrow();
  const c10::Stream here = current_stream(device());
  for (size_t i = 0; i < ends_.size(); ++i)
    if (here != info_.streams[i]) wait_event(ends_[i].get(), here);
}

bool WorkHCCL::wait(std::chrono::milliseconds timeout) {
  const bool limited = timeout != kNoTimeout;
  if (limited || info_.host_waits || settings().blocking_wait) {
    const auto limit = limited ? timeout : info_.timeout + kWaitGrace;
    // Short at first: a small collective is done in microseconds.
    for (auto pause = std::chrono::microseconds(20); !isCompleted();
         pause = std::min(pause * 2, std::chrono::microseconds(1000))) {
      if (std::chrono::steady_clock::now() - began_ > limit)
        C10_THROW_ERROR(DistBackendError,
                        c10::str("ProcessGroupHCCL: ", describe(), " was not done within ", limit.count(), " ms"));
      std::this_thread::sleep_for(pause);
    }
  }
  synchronize();
  return true;
}

c10::intrusive_ptr<c10::ivalue::Future> WorkHCCL::getFuture() {
  if (!future_) {
    future_ = c10::make_intrusive<c10::ivalue::Future>(c10::ListType::create(c10::TensorType::get()),
                                                       std::vector<c10::Device>{info_.streams[0].device()});
    // The future records its own event on the current stream: one where the end of this work has passed before.
    c10::Stream after = info_.streams[0];
    if (ends_.size() > 1) {
      after = stream_from_pool(device());
      for (const PooledEvent& end : ends_) wait_event(end.get(), after);
    }
    const c10::StreamGuard guard(after);
    future_->markCompleted(c10::IValue(info_.outputs));
  }
  return future_;
}

}  // namespace npu::distributed
