// See carrier.h: TCP connections of our own, one from each process to each that it sends to, on the chosen interface only. Nobody is
// believed before the handshake, so a stranger at the port costs a connection, of which few are kept.
// What it is not: encryption. Who sits between the hosts can read, and change what follows the handshake (docs/distributed.md).
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <deque>
#include <unordered_map>

#include "softnpu/hccl/network/carrier.h"
#include "softnpu/hccl/network/incoming.h"
#include "softnpu/hccl/network/outgoing.h"
#include "softnpu/hccl/status.h"
#include "softnpu/hccl/whitelist.h"

namespace softnpu::hccl {
namespace {

constexpr size_t kStrangers = 256;  // at a time; beyond that the oldest has to go

class TcpCarrier final : public Carrier {
 public:
  TcpCarrier(const std::string& address, const Addresses& addresses, Inbox& inbox)
      : address_(address),
        addresses_(addresses),
        inbox_(inbox),
        whitelist_(settings()),
        epoll_(epoll_create1(EPOLL_CLOEXEC)) {
    if (interface_of(address).empty())
      fail(HCCL_E_PARA,
           "no interface of this host has the address %s, which hccn.conf (ANYCEND_HCCN_CONF) gives the device",
           address.c_str());
    auto listener = tcp_listen(address, 0);
    if (!listener) fail(HCCL_E_UNAVAIL, "no port of %s is free", address.c_str());
    listener_ = std::move(*listener);
    name_.assign(kTcpName).append(std::to_string(bound_port(listener_)) + " " + address);
    watch(listener_.get(), EPOLLIN | EPOLLET);  // by edges: without descriptors left it must not spin
  }
  const std::string& name() const override { return name_; }
  int events() const override { return epoll_.get(); }
  bool progress() override { return turn(0); }
  void send(ParcelPtr parcel) override;
  void let_go(const ParcelPtr& parcel) override {
    for (auto& [fd, incoming] : in_) incoming->let_go(parcel);
    if (const auto to = out_.find(parcel->to); parcel->out && to != out_.end()) to->second->let_go(parcel);
  }
  void cut(const Key& process) override {
    const auto to = out_.find(process);
    if (to != out_.end()) close(to->second->fd(), "its operation was given up");
  }
  void flush(Deadline deadline) override {
    auto busy = [&] { return std::any_of(out_.begin(), out_.end(), [](auto& o) { return !o.second->idle(); }); };
    while (busy() && Clock::now() < deadline) turn(10);
  }

 private:
  bool turn(int milliseconds);
  void accept_all();
  void go_on(Outgoing& to, bool readable);
  void watch(int fd, uint32_t events, int how = EPOLL_CTL_ADD) {
    epoll_event event{};
    event.events = events;
    event.data.fd = fd;
    epoll_ctl(epoll_.get(), how, fd, &event);
  }
  void close(int fd, const std::string& why);

  const std::string address_;
  const Addresses& addresses_;
  Inbox& inbox_;
  const Whitelist whitelist_;
  Fd epoll_, listener_;
  std::string name_;
  std::unordered_map<int, std::unique_ptr<Incoming>> in_;
  std::map<Key, std::unique_ptr<Outgoing>> out_;
  std::unordered_map<int, Key> out_of_;  // by descriptor
  std::deque<int> strangers_;            // by arrival
};

void TcpCarrier::send(ParcelPtr parcel) {
  const Key process = parcel->to;
  auto& to = out_[process];
  if (!to) {
    try {
      to = std::make_unique<Outgoing>(addresses_.of(process), address_);
    } catch (const Error& error) {
      out_.erase(process);
      return parcel->end(Parcel::kLost, error.text);
    }
    out_of_[to->fd()] = process;
    watch(to->fd(), EPOLLIN | EPOLLOUT);
  }
  const bool first = to->idle();
  to->send(std::move(parcel));
  if (first) go_on(*to, false);
}

void TcpCarrier::go_on(Outgoing& to, bool readable) {
  const int fd = to.fd();
  try {
    to.go_on(readable);
  } catch (const Error& error) {
    return close(fd, error.text);
  }
  if (to.watched_for_writing == to.wants_to_write()) return;
  to.watched_for_writing = to.wants_to_write();
  watch(fd, EPOLLIN | (to.watched_for_writing ? EPOLLOUT : 0u), EPOLL_CTL_MOD);
}

bool TcpCarrier::turn(int milliseconds) {
  epoll_event events[32];
  const int n = epoll_wait(epoll_.get(), events, 32, milliseconds);
  for (int i = 0; i < n; ++i) {
    const int fd = events[i].data.fd;
    if (fd == listener_.get()) {
      accept_all();
    } else if (const auto in = in_.find(fd); in != in_.end()) {
      const bool stranger = in->second->stranger();
      try {
        in->second->read();
      } catch (const std::bad_alloc&) {
        close(fd, "out of host memory");
        continue;
      } catch (const Error& error) {
        close(fd, error.text);
        continue;
      }
      if (stranger && !in->second->stranger()) std::erase(strangers_, fd);
    } else if (const auto out = out_of_.find(fd); out != out_of_.end()) {
      go_on(*out_.at(out->second), events[i].events & ~EPOLLOUT);
    }
  }
  return n > 0;
}

void TcpCarrier::accept_all() {
  for (;;) {
    Fd socket(accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (!socket) {
      if (errno == EINTR || errno == ECONNABORTED) continue;
      if ((errno != EMFILE && errno != ENFILE) || strangers_.empty()) return;
      close(strangers_.front(), "");
      continue;
    }
    if (!whitelist_.allows(peer_address(socket.get()))) continue;
    const int on = 1, fd = socket.get();
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    if (strangers_.size() >= kStrangers) close(strangers_.front(), "");
    strangers_.push_back(fd);
    in_[fd] = std::make_unique<Incoming>(std::move(socket), addresses_, inbox_);
    watch(fd, EPOLLIN);
  }
}

void TcpCarrier::close(int fd, const std::string& why) {
  if (const auto out = out_of_.find(fd); out != out_of_.end()) {
    const auto to = out_.find(out->second);
    to->second->lost(why);
    out_.erase(to);
    out_of_.erase(out);
  } else {
    std::erase(strangers_, fd);
    in_.erase(fd);
  }
}

}  // namespace

std::unique_ptr<Carrier> make_tcp_carrier(const std::string& address, const Addresses& addresses, Inbox& inbox) {
  return std::make_unique<TcpCarrier>(address, addresses, inbox);
}

}  // namespace softnpu::hccl
