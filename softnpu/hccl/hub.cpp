// See hub.h.
#include "softnpu/hccl/hub.h"

#include <signal.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <deque>
#include <exception>
#include <map>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "softnpu/hccl/fork.h"
#include "softnpu/hccl/socket.h"
#include "softnpu/hccl/wait.h"

namespace softnpu::hccl::hub {
namespace {

struct Request {
  const std::function<void()>* work;
  std::exception_ptr error;
  bool done = false;
};

thread_local bool on_loop = false;  // this is the control thread

class Loop {
 public:
  Loop() : epoll_(epoll_create1(EPOLL_CLOEXEC)), bell_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
    guard_forks();
    watch(bell_.get(), [](uint32_t) {});
    // The program's signals are for its own threads.
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    std::thread([this] { run(); }).detach();
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
  }

  void call(const std::function<void()>& work) {
    if (on_loop) return work();
    Request request{&work, {}};
    std::unique_lock lock(mutex_);
    requests_.push_back(&request);
    const uint64_t one = 1;
    [[maybe_unused]] const ssize_t written = write(bell_.get(), &one, sizeof one);
    lock.unlock();
    Certain patience;  // a handler never waits for anybody
    wait(
        served_,
        [&] {
          std::lock_guard look(mutex_);
          return request.done;
        },
        patience);
    if (request.error) std::rethrow_exception(request.error);
  }

  void watch(int fd, Handler handler) {
    handlers_[fd] = std::make_shared<Handler>(std::move(handler));
    close_in_children(fd);
    epoll_event event{};
    event.events = EPOLLIN;
    event.data.fd = fd;
    epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &event);
  }

  void unwatch(int fd) {
    if (!handlers_.erase(fd)) return;
    epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, fd, nullptr);
    forget_descriptor(fd);
  }

  void every_tick(std::function<bool()> work) { ticks_.push_back(std::move(work)); }

 private:
  void run() {
    on_loop = true;
    pthread_setname_np(pthread_self(), "hccl-control");
    for (;;) {
      epoll_event events[32];
      const int n = epoll_wait(epoll_.get(), events, 32, ticks_.empty() ? -1 : 100);
      for (int i = 0; i < n; ++i) {
        if (events[i].data.fd == bell_.get()) {
          uint64_t count;
          [[maybe_unused]] const ssize_t got = read(bell_.get(), &count, sizeof count);
          continue;
        }
        const auto found = handlers_.find(events[i].data.fd);
        if (found == handlers_.end()) continue;  // a handler before it in this round took it away
        const std::shared_ptr<Handler> keep = found->second;
        (*keep)(events[i].events);
      }
      serve();
      for (size_t i = 0; i < ticks_.size();) {
        const auto work = ticks_[i];
        if (work())
          ++i;
        else
          ticks_.erase(ticks_.begin() + static_cast<ptrdiff_t>(i));
      }
    }
  }

  void serve() {
    std::unique_lock lock(mutex_);
    while (!requests_.empty()) {
      Request* request = requests_.front();
      requests_.pop_front();
      lock.unlock();
      std::exception_ptr error;
      try {
        (*request->work)();
      } catch (...) {
        error = std::current_exception();
      }
      lock.lock();
      request->error = error;
      request->done = true;
      ring(served_);
    }
  }

  Fd epoll_, bell_;
  std::mutex mutex_;  // guards requests_; held by no one while a handler runs
  Signal served_;
  std::deque<Request*> requests_;
  std::map<int, std::shared_ptr<Handler>> handlers_;  // these two: control thread only
  std::vector<std::function<bool()>> ticks_;
};

Loop& loop() {
  static Loop* const the = new Loop;  // leaked: its thread lives as long as the process
  return *the;
}

}  // namespace

void call(const std::function<void()>& work) { loop().call(work); }
void watch(int fd, Handler handler) { loop().watch(fd, std::move(handler)); }
void unwatch(int fd) { loop().unwatch(fd); }
void every_tick(std::function<bool()> work) { loop().every_tick(std::move(work)); }

}  // namespace softnpu::hccl::hub
