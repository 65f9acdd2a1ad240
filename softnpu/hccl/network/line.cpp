// See line.h.
#include "softnpu/hccl/network/line.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <time.h>

#include <cerrno>
#include <cstring>

#include "softnpu/hccl/status.h"
#include "softnpu/runtime/link.h"

namespace softnpu::hccl {
namespace {

constexpr auto kBetweenBeats = std::chrono::milliseconds(200);
constexpr auto kLongestTick = std::chrono::milliseconds(300);
constexpr size_t kMostUnsent = 1 << 20, kLongestFrame = 16 << 20;

std::string framed(uint32_t type, const void* data, size_t size) {
  const uint32_t head[2] = {static_cast<uint32_t>(size), type};
  std::string all(reinterpret_cast<const char*>(head), sizeof head);
  return all.append(static_cast<const char*>(data), size);
}

// A cut link is looked at again this often.
void rest() {
  const timespec a_while{0, 5'000'000};
  nanosleep(&a_while, nullptr);
}

}  // namespace

Line::Line(Fd socket) : socket_(std::move(socket)), limit_(settings().host_timeout), last_tick_(Clock::now()) {
  const auto limit = static_cast<int>(std::chrono::milliseconds(settings().host_timeout).count()), on = 1;
  setsockopt(fd(), IPPROTO_TCP, TCP_USER_TIMEOUT, &limit, sizeof limit);
  setsockopt(fd(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
}

void Line::say(uint32_t type, const void* data, size_t size) noexcept {
  std::lock_guard lock(mutex_);
  unsent_ += framed(type, data, size);
  push();
}

bool Line::push() noexcept {
  if (link_is_cut()) return unsent_.empty();
  while (!unsent_.empty() && !over_) {
    const ssize_t sent = send(fd(), unsent_.data(), unsent_.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent < 0 && errno == EINTR) continue;
    // An error here is found by read(), after what was said before it: a goodbye, perhaps.
    if (sent <= 0) {
      over_ = errno != EAGAIN || unsent_.size() > kMostUnsent;
      if (over_) shutdown(fd(), SHUT_RDWR);
      return false;
    }
    unsent_.erase(0, static_cast<size_t>(sent));
  }
  return true;
}

void Line::flush() noexcept {
  try {
    Until patience(Clock::now() + std::chrono::milliseconds(300), [] {});
    for (;;) {
      {
        std::lock_guard lock(mutex_);
        if (push() || over_) return;
      }
      wait(fd(), POLLOUT, patience);
    }
  } catch (const Error&) {  // the other side does not read: it will find the connection closed
  }
}

bool Line::read(const std::function<void(uint32_t, const std::vector<std::byte>&)>& hear) {
  if (link_is_cut()) {
    rest();
    return true;
  }
  bool open = true;
  for (char buffer[4096];;) {
    const ssize_t got = recv(fd(), buffer, sizeof buffer, MSG_DONTWAIT);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0 && errno == EAGAIN) break;
    if (got < 0 && (errno == ETIMEDOUT || errno == EHOSTUNREACH || errno == ENETUNREACH)) how_ = Farewell::kSilence;
    if (got <= 0) {
      open = false;
      break;
    }
    silence_ = {};
    unread_.append(buffer, static_cast<size_t>(got));
  }
  size_t at = 0;
  for (uint32_t head[2]; unread_.size() - at >= sizeof head;) {
    memcpy(head, unread_.data() + at, sizeof head);
    if (head[0] > kLongestFrame) return false;
    if (unread_.size() - at - sizeof head < head[0]) break;
    at += sizeof head;
    std::vector<std::byte> bytes(head[0]);
    if (head[0]) memcpy(bytes.data(), unread_.data() + at, head[0]);
    at += head[0];
    if (head[1] != kBeat) hear(head[1], bytes);
  }
  unread_.erase(0, at);
  return open;
}

bool Line::tick() {
  const Deadline now = Clock::now();
  silence_ += std::min<std::chrono::nanoseconds>(now - last_tick_, kLongestTick);
  last_tick_ = now;
  if (silence_ > limit_) {
    how_ = Farewell::kSilence;
    return false;
  }
  std::lock_guard lock(mutex_);
  if (now >= next_beat_) {
    next_beat_ = now + kBetweenBeats;
    if (unsent_.empty()) unsent_ = framed(kBeat, nullptr, 0);
  }
  push();
  return true;
}

}  // namespace softnpu::hccl
