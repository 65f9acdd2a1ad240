// See control.h.
#include "softnpu/hccl/network/control.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <cstdlib>
#include <cstring>
#include <map>

#include "softnpu/hccl/hub.h"
#include "softnpu/hccl/status.h"

namespace softnpu::hccl {
namespace {

constexpr auto kBeat = std::chrono::milliseconds(200);

std::vector<std::byte> pack(const Saying& saying, const void* more, size_t size) {
  std::vector<std::byte> bytes(sizeof saying + size);
  memcpy(bytes.data(), &saying, sizeof saying);
  if (size) memcpy(bytes.data() + sizeof saying, more, size);
  return bytes;
}

bool due(Deadline* next) {
  const Deadline now = Clock::now();
  if (now < *next) return false;
  *next = now + kBeat;
  return true;
}

// Something to acknowledge; when the other side's buffer is full, enough lies there already.
void beat(int socket) {
  const uint32_t head[2] = {0, static_cast<uint32_t>(Say::kBeat)};
  [[maybe_unused]] const ssize_t sent = ::send(socket, head, sizeof head, MSG_NOSIGNAL | MSG_DONTWAIT);
}

class Circle : public std::enable_shared_from_this<Circle> {
 public:
  explicit Circle(std::vector<std::pair<Fd, Member>> connections) {
    for (auto& [socket, member] : connections) {
      watch_connection(socket.get());
      const int fd = socket.get();
      seats_[fd] = {std::move(socket), member, false};
    }
  }

  void sit() {
    auto self = shared_from_this();
    std::erase_if(circles(), [](const auto& c) { return c.expired(); });
    circles().push_back(self);
    for (auto& [fd, seat] : seats_) hub::watch(fd, [self, fd = fd](uint32_t) { self->readable(fd); });
    hub::every_tick([self] {
      if (due(&self->next_beat_))
        for (auto& [fd, seat] : self->seats_) beat(fd);
      return !self->seats_.empty();
    });
  }

  // All of this process: control thread only.
  static std::vector<std::weak_ptr<Circle>>& circles() {
    static auto* const the = new std::vector<std::weak_ptr<Circle>>;
    return *the;
  }

  static void bye_to_all() {
    hub::call([] {
      for (const auto& weak : circles())
        if (const auto circle = weak.lock()) circle->pass_on(-1, static_cast<uint32_t>(Say::kBye), {});
    });
  }

 private:
  struct Seat {
    Fd socket;
    Member member;
    bool bye;
  };

  void readable(int fd) {
    const auto found = seats_.find(fd);
    if (found == seats_.end()) return;
    try {
      const Frame frame = recv_frame(fd, Clock::now() + std::chrono::seconds(1));
      if (frame.type == static_cast<uint32_t>(Say::kBeat)) return;
      if (frame.type == static_cast<uint32_t>(Say::kBye))
        found->second.bye = true;
      else
        pass_on(fd, frame.type, frame.bytes);
    } catch (const Error&) {
      rise(fd);
    }
  }

  void pass_on(int from, uint32_t type, const std::vector<std::byte>& bytes) {
    for (auto& [fd, seat] : seats_) {
      if (fd == from) continue;
      try {
        send_frame(fd, type, bytes.data(), bytes.size());
      } catch (const Error&) {
        shutdown(fd, SHUT_RDWR);  // what it said before, a goodbye perhaps, is read before the end is
      }
    }
  }

  void rise(int fd) {
    const auto found = seats_.find(fd);
    if (found == seats_.end()) return;
    hub::unwatch(fd);
    const Seat seat = std::move(found->second);
    seats_.erase(found);
    if (seat.bye) return;
    const Saying saying{seat.member.process.id, seat.member.rank, 0, seat.member.process.pid, 0};
    pass_on(-1, static_cast<uint32_t>(Say::kGone), pack(saying, nullptr, 0));
  }

  std::map<int, Seat> seats_;
  Deadline next_beat_{};
};

}  // namespace

void watch_connection(int socket) {
  const int limit = kHostTimeoutMs, on = 1;
  setsockopt(socket, IPPROTO_TCP, TCP_USER_TIMEOUT, &limit, sizeof limit);
  setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
}

void serve_control(std::vector<std::pair<Fd, Member>> connections) {
  hub::call([&] { std::make_shared<Circle>(std::move(connections))->sit(); });
}

ControlLinkPtr ControlLink::open(Fd socket, const Key& root) {
  static const int once = atexit([] {
    if (forked()) return;
    say_farewells();
    Circle::bye_to_all();
  });
  (void)once;
  watch_connection(socket.get());
  const ControlLinkPtr link(new ControlLink(std::move(socket), root));
  hub::call([&] {
    const std::weak_ptr<ControlLink> weak = link;
    hub::watch(link->socket_.get(), [weak](uint32_t) {
      if (const auto l = weak.lock()) l->readable();
    });
    hub::every_tick([weak] {
      const auto l = weak.lock();
      if (!l || l->over_) return false;
      if (due(&l->next_beat_)) {
        const std::unique_lock lock(l->mutex_, std::try_to_lock);
        if (lock) beat(l->socket_.get());
      }
      return true;
    });
  });
  return link;
}

ControlLink::~ControlLink() {
  bye();
  const int fd = socket_.get();
  hub::call([fd] { hub::unwatch(fd); });
}

void ControlLink::say(Say what, const Saying& saying, const void* more, size_t size) noexcept {
  try {
    const std::vector<std::byte> bytes = pack(saying, more, size);
    std::lock_guard lock(mutex_);
    send_frame(socket_.get(), static_cast<uint32_t>(what), bytes.data(), bytes.size());
  } catch (...) {  // the connection is over: readable() reports it
  }
}

void ControlLink::readable() {
  const auto self = shared_from_this();
  Frame frame;
  try {
    frame = recv_frame(socket_.get(), Clock::now() + std::chrono::seconds(1));
  } catch (const Error&) {
    over_ = true;
    hub::unwatch(socket_.get());
    return root_lost(root_, false);
  }
  if (frame.type == static_cast<uint32_t>(Say::kBeat)) return;
  if (frame.type == static_cast<uint32_t>(Say::kBye)) {
    over_ = true;
    hub::unwatch(socket_.get());
    return root_lost(root_, true);
  }
  Heard heard{static_cast<Say>(frame.type), {}, {}};
  if (frame.bytes.size() < sizeof heard.saying) return;
  memcpy(&heard.saying, frame.bytes.data(), sizeof heard.saying);
  heard.more.assign(frame.bytes.begin() + sizeof heard.saying, frame.bytes.end());
  hear(heard, this);
}

}  // namespace softnpu::hccl
