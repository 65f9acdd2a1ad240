// See bootstrap.h: the root's side. One listening socket a process, shared by the sessions that are open; it is closed with the
// last of them, so the port is back as soon as the communicators stand. Everything here runs on the control thread.
#include <sys/socket.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <memory>

#include "softnpu/hccl/bootstrap.h"
#include "softnpu/hccl/hub.h"
#include "softnpu/hccl/network/control.h"
#include "softnpu/hccl/network/hosts.h"
#include "softnpu/hccl/status.h"
#include "softnpu/hccl/whitelist.h"

namespace softnpu::hccl {
namespace {

constexpr uint16_t kPorts = 16;

struct Connection {
  explicit Connection(Fd s) : socket(std::move(s)) {}
  Fd socket;
  bool joined = false, linked = false;
  uint32_t rank = 0;
};
using ConnectionPtr = std::shared_ptr<Connection>;

struct Session {
  Key key;
  uint32_t ranks = 0;  // known with the first rank
  std::chrono::seconds timeout;
  Deadline deadline;
  std::vector<ConnectionPtr> joined;  // by arrival
  std::vector<Member> members;
  std::vector<std::string> names;  // by rank: how they are reached through the network
  size_t named = 0;
  bool table_sent = false;
};

void send_failure(int socket, HcclResult code, const std::string& text) noexcept {
  std::string bytes(sizeof(uint32_t), '\0');
  const uint32_t number = code;
  memcpy(bytes.data(), &number, sizeof number);
  bytes += text;
  try {
    send_frame(socket, kFailed, bytes.data(), bytes.size());
  } catch (const Error&) {  // whoever hung up needs no reason
  }
}

class Server {
 public:
  static Server& get() {
    static Server* const the = new Server;
    return *the;
  }

  RootInfo open(const Settings& s, int device, const Key& key, const std::string& address, uint16_t fixed_port) {
    if (!listener_ || address_ != address)
      listen(s, device, address, fixed_port);
    else if (fixed_port && port_ != fixed_port)
      fail(HCCL_E_UNAVAIL, "this process listens on port %d already, not on %d", port_, fixed_port);
    auto session = std::make_shared<Session>();
    session->key = key;
    session->timeout = s.connect_timeout;
    session->deadline = Clock::now() + s.connect_timeout + std::chrono::seconds(1);
    sessions_[key] = session;
    if (!ticking_) {
      ticking_ = true;
      hub::every_tick([this] { return tick(); });
    }
    return {address_, port_, key};
  }

 private:
  void listen(const Settings& s, int device, const std::string& address, uint16_t fixed_port) {
    if (!sessions_.empty())
      fail(HCCL_E_UNAVAIL, "this process listens on %s; it cannot use %s at the same time", address_.c_str(),
           address.c_str());
    const uint16_t mine = static_cast<uint16_t>(s.base_port + device % kPorts);
    std::optional<Fd> socket;
    if (fixed_port) {
      socket = tcp_listen(address, fixed_port);
      if (!socket)
        fail(HCCL_E_UNAVAIL, "port %d of %s is taken; the rank table gives rank 0 no other", fixed_port,
             address.c_str());
    } else if (s.base_port_named) {
      socket = tcp_listen(address, mine);
      if (!socket)
        fail(HCCL_E_UNAVAIL, "port %d of %s is taken (HCCL_IF_BASE_PORT=%d, device %d)", mine, address.c_str(),
             s.base_port, device);
    } else {
      // The default ports lie where the kernel takes ports for outgoing connections: a taken one says nothing about another job.
      for (uint16_t i = 0; i < kPorts && !socket; ++i)
        socket = tcp_listen(address, static_cast<uint16_t>(s.base_port + (device + i) % kPorts));
      if (!socket) socket = tcp_listen(address, 0);
      if (!socket) fail(HCCL_E_UNAVAIL, "no port of %s is free", address.c_str());
    }
    whitelist_ = std::make_unique<Whitelist>(s);
    close_listener();
    listener_ = std::move(*socket);
    address_ = address;
    port_ = bound_port(listener_);
    hub::watch(listener_.get(), [this](uint32_t) { accept_one(); });
  }

  void close_listener() {
    if (!listener_) return;
    hub::unwatch(listener_.get());
    listener_ = Fd();
  }

  void accept_one() {
    Fd socket(accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
    if (!socket) return;
    const std::string from = peer_address(socket.get());
    if (!whitelist_->allows(from)) {
      send_failure(socket.get(), HCCL_E_TCP_CONNECT, "the root refused " + from + ": " + whitelist_->reason());
      return;
    }
    auto connection = std::make_shared<Connection>(std::move(socket));
    const int fd = connection->socket.get();
    hub::watch(fd, [this, connection, fd, session = std::weak_ptr<Session>()](uint32_t) mutable {
      try {
        // A frame is small and sent at once: a second is more than it needs, and no stranger may hold the loop for longer.
        Frame frame = recv_frame(fd, Clock::now() + std::chrono::seconds(1));
        if (frame.type == kJoin && !connection->joined) {
          session = join(connection, frame);
        } else if (auto n = session.lock(); n && frame.type == kName) {
          named(n, connection, std::string(reinterpret_cast<const char*>(frame.bytes.data()), frame.bytes.size()));
        } else if (auto s = session.lock(); s && frame.type == kLinked) {
          linked(s, connection, std::string(reinterpret_cast<const char*>(frame.bytes.data()), frame.bytes.size()));
        } else {
          hub::unwatch(fd);
        }
      } catch (const Error&) {
        hub::unwatch(fd);
        if (auto s = session.lock(); s && sessions_.count(s->key))
          end(s, HCCL_E_REMOTE,
              "rank " + std::to_string(connection->rank) + " left while the communicator was being made");
      }
    });
  }

  std::weak_ptr<Session> join(const ConnectionPtr& connection, const Frame& frame) {
    const int fd = connection->socket.get();
    auto refuse = [&](HcclResult code, const std::string& text) {
      send_failure(fd, code, text);
      hub::unwatch(fd);
      return std::weak_ptr<Session>();
    };
    Join join;
    if (frame.bytes.size() != sizeof join)
      return refuse(HCCL_E_PARA, "the root speaks another version of this library");
    memcpy(&join, frame.bytes.data(), sizeof join);
    const auto found = sessions_.find(join.key);
    if (found == sessions_.end())
      return refuse(HCCL_E_PARA,
                    "the root knows no such communicator: the root info is of another one, used before, or too old");
    const std::shared_ptr<Session> s = found->second;
    connection->joined = true;
    connection->rank = join.member.rank;
    const std::string name = "rank " + std::to_string(join.member.rank);
    if (s->joined.empty()) {
      s->ranks = join.ranks;
      s->deadline = Clock::now() + s->timeout;
    }
    s->joined.push_back(connection);
    if (join.ranks != s->ranks)
      end(s, HCCL_E_PARA,
          name + " was started for " + std::to_string(join.ranks) + " ranks, others for " + std::to_string(s->ranks));
    else if (join.member.rank >= s->ranks)
      end(s, HCCL_E_PARA, name + " does not exist among " + std::to_string(s->ranks) + " ranks");
    else if (std::any_of(s->members.begin(), s->members.end(),
                         [&](const Member& m) { return m.rank == join.member.rank; }))
      end(s, HCCL_E_PARA, name + " joined twice");
    else {
      s->members.push_back(join.member);
      if (s->members.size() == s->ranks) send_table(s);
    }
    return s;
  }

  void send_table(const std::shared_ptr<Session>& s) {
    std::sort(s->members.begin(), s->members.end(), [](const Member& a, const Member& b) { return a.rank < b.rank; });
    s->table_sent = true;
    s->deadline = Clock::now() + s->timeout;
    for (const ConnectionPtr& c : s->joined)
      send_frame(c->socket.get(), kTable, s->members.data(), s->members.size() * sizeof(Member));
  }

  void named(const std::shared_ptr<Session>& s, const ConnectionPtr& connection, std::string name) {
    s->names.resize(s->ranks);
    s->named += s->names[connection->rank].empty() && !name.empty();
    s->names[connection->rank] = std::move(name);
    if (s->named < s->ranks) return;
    std::string all;
    for (const std::string& n : s->names) {
      const auto size = static_cast<uint32_t>(n.size());
      all.append(reinterpret_cast<const char*>(&size), sizeof size).append(n);
    }
    for (const ConnectionPtr& c : s->joined) send_frame(c->socket.get(), kNames, all.data(), all.size());
  }

  void linked(const std::shared_ptr<Session>& s, const ConnectionPtr& connection, const std::string& failure) {
    connection->linked = true;
    if (!failure.empty()) return end(s, HCCL_E_REMOTE, "rank " + std::to_string(connection->rank) + ": " + failure);
    if (!std::all_of(s->joined.begin(), s->joined.end(), [](const ConnectionPtr& c) { return c->linked; })) return;
    forget(s);  // first: whoever returns from initialisation finds the port free
    for (const ConnectionPtr& c : s->joined) {
      try {
        send_frame(c->socket.get(), kGo, this_process().id.data(), sizeof(Key));
      } catch (const Error&) {  // its death is seen on the local connection, or on the control connection
      }
    }
    if (!Hosts(s->members, 0).several()) return;
    std::vector<std::pair<Fd, Member>> stay;
    for (const ConnectionPtr& c : s->joined) stay.emplace_back(std::move(c->socket), s->members[c->rank]);
    serve_control(std::move(stay));
  }

  void end(const std::shared_ptr<Session>& s, HcclResult code, const std::string& text) {
    forget(s);
    for (const ConnectionPtr& c : s->joined) send_failure(c->socket.get(), code, text);
  }

  void forget(const std::shared_ptr<Session>& s) {
    for (const ConnectionPtr& c : s->joined) hub::unwatch(c->socket.get());
    sessions_.erase(s->key);
    if (sessions_.empty()) close_listener();
  }

  bool tick() {
    const Deadline now = Clock::now();
    std::vector<std::shared_ptr<Session>> over;
    for (auto& [key, s] : sessions_)
      if (now > s->deadline) over.push_back(s);
    for (const auto& s : over) {
      std::string missing;
      for (uint32_t r = 0; r < s->ranks; ++r) {
        const auto& seen = s->joined;
        if (std::none_of(seen.begin(), seen.end(),
                         [&](const ConnectionPtr& c) { return c->rank == r && (c->linked || !s->table_sent); }))
          missing += (missing.empty() ? "" : ", ") + std::to_string(r);
      }
      end(s, HCCL_E_TIMEOUT,
          "rank " + missing + " of " + std::to_string(s->ranks) +
              (s->table_sent ? " was not linked" : " did not connect") + " within " +
              std::to_string(s->timeout.count()) + " s (HCCL_CONNECT_TIMEOUT)");
    }
    ticking_ = !sessions_.empty();
    return ticking_;
  }

  Fd listener_;
  std::string address_;
  uint16_t port_ = 0;
  bool ticking_ = false;
  std::unique_ptr<Whitelist> whitelist_;
  std::map<Key, std::shared_ptr<Session>> sessions_;
};

}  // namespace

RootInfo open_session(const Settings& s, int device, const Key& key, const std::string& address, uint16_t fixed_port) {
  RootInfo info;
  hub::call([&] { info = Server::get().open(s, device, key, address, fixed_port); });
  return info;
}

}  // namespace softnpu::hccl
