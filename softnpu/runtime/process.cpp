// Fork and exit. The atfork handlers take no lock: the child only learns that it must not touch what it inherited.
#include "softnpu/runtime/process.h"

#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>

#include "softnpu/race/race.h"
#include "softnpu/runtime/executor.h"
#include "softnpu/runtime/futex.h"
#include "softnpu/runtime/log.h"
#include "softnpu/runtime/stream.h"
#include "softnpu/runtime/trace.h"

namespace softnpu {

constinit std::atomic<Life> g_life{Life::kRunning};

namespace {

constexpr int64_t kDrainMs = 10000;
std::atomic<bool> g_started{false};

void in_forked_child() {
  g_life.store(Life::kForked, std::memory_order_relaxed);
  trace::forget_listeners();
  race::stop();
}

}  // namespace

void mark_started() noexcept {
  if (g_started.load(std::memory_order_acquire) || g_started.exchange(true)) return;
  pthread_atfork(nullptr, nullptr, in_forked_child);
  on_exit(
      [](int status, void*) {
        const bool owes = race::owes();
        shut_down();
        if (owes && status == 0) exit(1);  // goes on with what else is to be done at the end
      },
      nullptr);
}

void shut_down() noexcept {
  if (life() != Life::kRunning) return;
  bool drained = Stream::drain_all(deadline_after_ms(kDrainMs));
  if (drained && race::on()) race::all_over();
  g_life.store(Life::kExited);
  if (!drained)
    log_line(kError, "exit: work queued on a stream did not finish in %d s and is abandoned", int(kDrainMs / 1000));
  Executor::stop_all(drained);
}

bool has_ended(int pid) noexcept {
  if (kill(pid, 0) != 0 && errno == ESRCH) return true;
  pollfd process{static_cast<int>(syscall(SYS_pidfd_open, pid, 0)), POLLIN, 0};  // readable from the end on
  if (process.fd < 0) return errno == ESRCH;  // else an old kernel, or another user's process: `kill` has answered
  const bool ended = poll(&process, 1, 0) == 1;
  close(process.fd);
  return ended;
}

}  // namespace softnpu
