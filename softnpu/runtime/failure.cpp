// A stream's sticky error: set, reported, passed on, and owed to other threads (stream.h, owed.h); the error of a wait that took too long.
#include <mutex>
#include <string_view>
#include <utility>

#include "softnpu/runtime/error.h"
#include "softnpu/runtime/log.h"
#include "softnpu/runtime/stream.h"
#include "softnpu/sanitize/hooks.h"

namespace softnpu {
namespace {

std::atomic<uint64_t> g_next_cause{1};

}  // namespace

// `cause` is 0 for a failure that was not inherited.
void Stream::set_failure(int code, const char* task, const char* message, uint64_t cause) noexcept {
  std::lock_guard lock(error_mutex_);
  if (status_.load(std::memory_order_relaxed) != 0) return;  // the first error is the cause
  if (ring_.done() < dropped_until_.load(std::memory_order_relaxed))
    return;  // a task that was dropped with its device's
  failure_ = {code, {}, ring_.done() + 1, cause ? cause : g_next_cause.fetch_add(1)};
  owed_.begin();
  try {
    const std::string name = task ? task : "task";
    std::string_view says = message && *message ? message : "no message";
    if (says.starts_with(name + ": "))
      says.remove_prefix(name.size() + 2);  // as it is told where nothing else names it
    failure_.text = name + " failed on device " + std::to_string(device()) + ": " + std::string(says);
  } catch (...) {
  }
  log_line(kError, "stream error %d: %s", code, failure_.text.c_str());
  status_.store(code, std::memory_order_release);
}

Stream::Failure Stream::failure(bool take, uint64_t until, uint64_t cause) noexcept {
  std::lock_guard lock(error_mutex_);
  if (status_.load(std::memory_order_relaxed) == 0 || failure_.position > until) return {};
  if (cause && failure_.cause != cause) return {};
  Failure f{failure_.code, {}, failure_.position, failure_.cause};
  try {
    f.text = failure_.text;
  } catch (...) {
  }
  if (take) {
    if (!continue_on_failure()) skip_until(skip_until_, ring_.tail());
    owed_.told(thread_number());
    status_.store(0, std::memory_order_release);
  }
  return f;
}

void Stream::throw_error(bool clear, uint64_t until) {
  sanitize::at(sanitize::Point::kReport, this);
  if (Failure f = failure(clear, until); f.code) throw Error{f.code, std::move(f.text)};
}

// Token holder only: the task failed, or was skipped for the last failure.
void Stream::owe(const Work& work) noexcept {
  const uint16_t thread = work.thread() ? work.thread() : thread_number();
  std::lock_guard lock(error_mutex_);
  owed_.owe(thread, ring_.done() + 1, failure_.code, failure_.text);
}

std::optional<Error> Stream::take_owed(uint16_t thread, uint64_t until) noexcept {
  std::lock_guard lock(error_mutex_);
  return owed_.take(thread, until);
}

void Stream::throw_owed(uint64_t until) {
  if (auto error = take_owed(thread_number(), until)) throw *std::move(error);
}

void Stream::time_out(int code) const {
  const Stream* at = this;
  for (int steps = 0; steps < 16; ++steps)
    if (const Stream* next = at->behind_.load(std::memory_order_relaxed)) at = next;
  const std::string task = at->runs_.get();
  if (task.empty()) fail(code, "the stream has not finished within the given time");
  fail(code, "the stream has not finished within the given time: %s still runs%s", task.c_str(),
       at == this ? "" : " on a stream that it waits for");
}

}  // namespace softnpu
