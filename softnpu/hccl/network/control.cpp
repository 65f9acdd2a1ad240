// See control.h.
#include "softnpu/hccl/network/control.h"

#include <cstdlib>
#include <cstring>
#include <map>

#include "softnpu/hccl/hub.h"
#include "softnpu/hccl/status.h"

namespace softnpu::hccl {
namespace {

std::vector<std::byte> pack(const Saying& saying, const void* more, size_t size) {
  std::vector<std::byte> bytes(sizeof saying + size);
  memcpy(bytes.data(), &saying, sizeof saying);
  if (size) memcpy(bytes.data() + sizeof saying, more, size);
  return bytes;
}

class Circle : public std::enable_shared_from_this<Circle> {
 public:
  explicit Circle(std::vector<std::pair<Fd, Member>> connections) {
    for (auto& [socket, member] : connections) {
      const int fd = socket.get();
      seats_.emplace(fd, std::make_shared<Seat>(std::move(socket), member));
    }
  }

  void sit() {
    auto self = shared_from_this();
    std::erase_if(circles(), [](const auto& c) { return c.expired(); });
    circles().push_back(self);
    for (auto& [fd, seat] : seats_) hub::watch(fd, [self, fd = fd](uint32_t) { self->readable(fd); });
    hub::every_tick([self] {
      const auto seats = self->seats_;  // one that rises is taken out
      for (const auto& [fd, seat] : seats)
        if (self->seats_.count(fd) && !seat->line.tick()) self->rise(fd);
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
        if (const auto circle = weak.lock()) {
          circle->pass_on(-1, static_cast<uint32_t>(Say::kBye), {});
          for (const auto& [fd, seat] : circle->seats_) seat->line.flush();
        }
    });
  }

 private:
  struct Seat {
    Seat(Fd socket, const Member& m) : line(std::move(socket)), member(m) {}
    Line line;
    const Member member;
    bool bye = false;
  };

  void readable(int fd) {
    const auto found = seats_.find(fd);
    if (found == seats_.end()) return;
    const auto seat = found->second;
    const bool open = seat->line.read([&](uint32_t type, const std::vector<std::byte>& bytes) {
      if (type == static_cast<uint32_t>(Say::kBye))
        seat->bye = true;
      else
        pass_on(fd, type, bytes);
    });
    if (!open) rise(fd);
  }

  void pass_on(int from, uint32_t type, const std::vector<std::byte>& bytes) {
    for (auto& [fd, seat] : seats_)
      if (fd != from) seat->line.say(type, bytes.data(), bytes.size());
  }

  void rise(int fd) {
    const auto found = seats_.find(fd);
    if (found == seats_.end()) return;
    hub::unwatch(fd);
    const auto seat = found->second;
    seats_.erase(found);
    if (seat->bye) return;
    const Process& process = seat->member.process;
    const Saying saying{process.id, seat->member.rank, 0, process.pid, static_cast<uint32_t>(seat->line.how())};
    pass_on(-1, static_cast<uint32_t>(Say::kGone), pack(saying, nullptr, 0));
  }

  std::map<int, std::shared_ptr<Seat>> seats_;
};

}  // namespace

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
  const ControlLinkPtr link(new ControlLink(std::move(socket), root));
  hub::call([&] {
    const std::weak_ptr<ControlLink> weak = link;
    hub::watch(link->line_.fd(), [weak](uint32_t) {
      if (const auto l = weak.lock()) l->readable();
    });
    hub::every_tick([weak] {
      const auto l = weak.lock();
      if (!l || l->over_) return false;
      if (!l->line_.tick()) l->end(l->line_.how());
      return !l->over_;
    });
  });
  return link;
}

ControlLink::~ControlLink() {
  bye();
  const int fd = line_.fd();
  hub::call([fd] { hub::unwatch(fd); });
}

void ControlLink::say(Say what, const Saying& saying, const void* more, size_t size) noexcept {
  const std::vector<std::byte> bytes = pack(saying, more, size);
  line_.say(static_cast<uint32_t>(what), bytes.data(), bytes.size());
}

void ControlLink::bye() noexcept {
  say(Say::kBye, {});
  line_.flush();
}

void ControlLink::readable() {
  const auto self = shared_from_this();
  const bool open = line_.read([&](uint32_t type, const std::vector<std::byte>& bytes) {
    if (over_) return;
    if (type == static_cast<uint32_t>(Say::kBye)) return end(Farewell::kSaid);
    Heard heard{static_cast<Say>(type), {}, {}};
    if (bytes.size() < sizeof heard.saying) return;
    memcpy(&heard.saying, bytes.data(), sizeof heard.saying);
    heard.more.assign(bytes.begin() + sizeof heard.saying, bytes.end());
    hear(heard, this);
  });
  if (!open) end(line_.how());
}

void ControlLink::end(Farewell how) {
  if (std::exchange(over_, true)) return;
  hub::unwatch(line_.fd());
  root_lost(root_, how);
}

}  // namespace softnpu::hccl
