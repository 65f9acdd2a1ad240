// See worker.h.
#include "softnpu/hccl/network/worker.h"

#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <thread>

#include "softnpu/hccl/network/ucx.h"
#include "softnpu/hccl/settings.h"
#include "softnpu/hccl/status.h"
#include "softnpu/runtime/link.h"

namespace softnpu::hccl {
namespace {

constexpr auto kPatience = std::chrono::milliseconds(300);

}  // namespace

Wire::Worker::Worker(const std::string& address)
    : carrier(ucx_wanted() ? make_ucx_carrier(address, addresses, inbox)
                           : make_tcp_carrier(address, addresses, inbox)) {}

void Wire::Worker::start() {
  sigset_t all, before;  // the program's signals are for its own threads
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  std::thread([this] { run(); }).detach();
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

void Wire::Worker::wake() {
  if (!asleep.exchange(false, std::memory_order_seq_cst)) return;
  const uint64_t one = 1;
  [[maybe_unused]] const ssize_t written = write(bell.get(), &one, sizeof one);
}

void Wire::Worker::order(ParcelPtr parcel) {
  {
    std::lock_guard lock(mutex);
    orders.push_back(std::move(parcel));
  }
  wake();
}

void Wire::Worker::run() {
  pthread_setname_np(pthread_self(), "hccl-wire");
  for (;;) {
    if (link_is_cut()) {
      usleep(5000);
      continue;
    }
    const bool served = serve();
    const bool moved = carrier->progress();
    see_off();
    if (served || moved) continue;
    if (finish()) return;
    asleep.store(true, std::memory_order_seq_cst);
    if (waiting() || !carrier->arm()) {
      asleep.store(false, std::memory_order_seq_cst);
      continue;
    }
    pollfd fds[2] = {{carrier->events(), POLLIN, 0}, {bell.get(), POLLIN, 0}};
    poll(fds, 2, leaving.empty() ? -1 : 10);
    asleep.store(false, std::memory_order_seq_cst);
    uint64_t count;
    [[maybe_unused]] const ssize_t got = read(bell.get(), &count, sizeof count);
  }
}

bool Wire::Worker::waiting() {
  std::lock_guard lock(mutex);
  return !orders.empty() || (closing && !closed.value);
}

bool Wire::Worker::serve() {
  std::deque<ParcelPtr> mine;
  {
    std::lock_guard lock(mutex);
    mine.swap(orders);
  }
  for (ParcelPtr& parcel : mine) begin(std::move(parcel));
  return !mine.empty();
}

void Wire::Worker::begin(ParcelPtr parcel) {
  if (parcel->dropped) return forget(std::move(parcel));
  if (!parcel->out) return inbox.expect(std::move(parcel));
  parcel->sending = true;
  carrier->send(std::move(parcel));
}

void Wire::Worker::forget(ParcelPtr parcel) {
  carrier->let_go(parcel);
  if (!parcel->sending) return inbox.forget(parcel);
  if (!parcel->done()) leaving.push_back({std::move(parcel), Clock::now() + kPatience});
}

void Wire::Worker::see_off() {
  std::erase_if(leaving, [](const Leaving& l) { return l.parcel->done(); });
  for (const Leaving& l : leaving) {
    if (Clock::now() > l.deadline) carrier->cut(l.parcel->to);
  }
}

bool Wire::Worker::finish() {
  {
    std::lock_guard lock(mutex);
    if (!closing || closed.value) return false;
  }
  carrier->flush(Clock::now() + std::chrono::seconds(1));
  set(closed, 1);
  return true;
}

void Wire::Worker::close() {
  {
    std::lock_guard lock(mutex);
    closing = true;
  }
  wake();
  Certain patience;
  wait(closed, [&] { return closed.value.load() != 0; }, patience, Clock::now() + std::chrono::milliseconds(1200));
}

}  // namespace softnpu::hccl
