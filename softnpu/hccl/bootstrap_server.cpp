// See bootstrap.h: the root's side. One listening socket a process, shared by the sessions that are open; it is closed with the
// last of them, so the port is back as soon as the communicators stand. Everything here runs on the control thread, and nothing
// waits for a peer: strangers, however many, cost those who belong to the job nothing but the processor's time.
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <deque>
#include <map>
#include <memory>

#include "softnpu/hccl/bootstrap.h"
#include "softnpu/hccl/bootstrap_connection.h"
#include "softnpu/hccl/hub.h"
#include "softnpu/hccl/network/control.h"
#include "softnpu/hccl/network/hosts.h"
#include "softnpu/hccl/status.h"
#include "softnpu/hccl/whitelist.h"

namespace softnpu::hccl {
namespace {

constexpr uint16_t kPorts = 16;

constexpr size_t kStrangers = 512;  // at a time; beyond that the oldest has to go
constexpr int kAcceptedAtOnce = 64;

struct Session {
  Key key;
  uint32_t ranks = 0;                 // known with the first rank
  std::chrono::milliseconds timeout;  // this process's, or the least that a rank says
  const char* timeout_name = "HCCL_CONNECT_TIMEOUT";
  Deadline deadline;
  std::vector<ConnectionPtr> joined;  // by arrival
  std::vector<Member> members;
  std::vector<std::string> names;  // by rank: how they are reached through the network
  size_t named = 0;
  bool table_sent = false;
};

std::string seconds_text(std::chrono::milliseconds time) {
  char text[32];
  snprintf(text, sizeof text, "%g", static_cast<double>(time.count()) / 1000);
  return text;
}

void send_failure(Connection& to, HcclResult code, const std::string& text) noexcept {
  std::string bytes(sizeof(uint32_t), '\0');
  const uint32_t number = code;
  memcpy(bytes.data(), &number, sizeof number);
  bytes += text;
  to.send(kFailed, bytes.data(), bytes.size());
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
    sessions_[name_of(key)] = session;
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
    watch_listener();
  }

  void watch_listener() {
    hub::watch(listener_.get(), [this](uint32_t) { accept_some(); });
  }

  void close_listener() {
    if (!listener_) return;
    hub::unwatch(listener_.get());
    listener_ = Fd();
  }

  void accept_some() {
    for (int i = 0; i < kAcceptedAtOnce; ++i) {
      Fd socket(accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
      if (!socket) {
        if (errno != EMFILE && errno != ENFILE) return;
        // Out of descriptors: a stranger's is taken. Without any, those who come wait for the next tick.
        if (strangers_.empty()) {
          hub::unwatch(listener_.get());
          paused_ = true;
          return;
        }
        leave(strangers_.front());
        continue;
      }
      take(std::make_shared<Connection>(std::move(socket)));
    }
  }

  void take(const ConnectionPtr& connection) {
    const int fd = connection->socket.get();
    const std::string from = peer_address(fd);
    if (!whitelist_->allows(from))
      return send_failure(*connection, HCCL_E_TCP_CONNECT, "the root refused " + from + ": " + whitelist_->reason());
    if (strangers_.size() >= kStrangers) leave(strangers_.front());
    strangers_.push_back(connection);
    hub::watch(fd, [this, connection, session = std::weak_ptr<Session>()](uint32_t) mutable {
      try {
        const std::optional<Frame> frame = connection->read();
        if (!frame) return;
        if (!connection->joined)
          session = heed(connection, *frame);
        else if (const auto s = session.lock(); !s || !hear(s, connection, *frame))
          hub::unwatch(connection->socket.get());
      } catch (const Error&) {
        leave(connection);
        if (auto s = session.lock(); s && sessions_.count(name_of(s->key)))
          end(s, HCCL_E_REMOTE,
              "rank " + std::to_string(connection->rank) + " left while the communicator was being made");
      }
    });
  }

  void leave(const ConnectionPtr connection) {
    hub::unwatch(connection->socket.get());
    std::erase(strangers_, connection);
  }

  // What a rank says. False: it has nothing to say any more.
  bool hear(const std::shared_ptr<Session>& s, const ConnectionPtr& connection, const Frame& frame) {
    std::string text(reinterpret_cast<const char*>(frame.bytes.data()), frame.bytes.size());
    if (frame.type == kName && s->table_sent)
      named(s, connection, std::move(text));
    else if (frame.type == kLinked && s->table_sent)
      linked(s, connection, text);
    else
      return false;
    return true;
  }

  // What a stranger says: a hello is answered, a proof makes it a rank.
  std::weak_ptr<Session> heed(const ConnectionPtr& connection, const Frame& frame) {
    auto refuse = [&](HcclResult code, const std::string& text) {
      send_failure(*connection, code, text);
      leave(connection);
      return std::weak_ptr<Session>();
    };
    Hello asks;
    if (frame.type == kHello && frame.bytes.size() == sizeof asks && !connection->asked) {
      memcpy(&asks, frame.bytes.data(), sizeof asks);
      const auto found = sessions_.find(asks.meant);
      if (asks.version == kHandshake && found != sessions_.end()) {
        connection->asked = {asks, challenge(found->second->key, asks)};
        connection->send(kChallenge, &connection->asked->second, sizeof(Challenge));
        return {};
      }
      if (asks.version == kHandshake)
        return refuse(
            HCCL_E_PARA,
            "the root knows no such communicator: the root info is of another one, used before, or too old, or "
            "ANYCEND_HCCL_SECRET is not the same on all ranks");
    }
    Join join;
    if (frame.type != kJoin || frame.bytes.size() != sizeof join || !connection->asked)
      return refuse(HCCL_E_PARA, "the root speaks another version of this library");
    memcpy(&join, frame.bytes.data(), sizeof join);
    const auto& [hello, challenge] = *connection->asked;
    const auto found = sessions_.find(hello.meant);
    if (found == sessions_.end() ||
        !same(join.proof, answer(found->second->key, hello, challenge, bytes_of(join.said))))
      return refuse(HCCL_E_PARA, "the root did not believe that this rank knows the communicator's key");
    return join_session(connection, found->second, join.said);
  }

  std::weak_ptr<Session> join_session(const ConnectionPtr& connection, const std::shared_ptr<Session> s,
                                      const Join::Said& join) {
    std::erase(strangers_, connection);
    connection->joined = true;
    connection->rank = join.member.rank;
    const std::string name = "rank " + std::to_string(join.member.rank);
    if (s->joined.empty()) {
      s->ranks = join.ranks;
      s->deadline = Clock::now() + s->timeout;
    }
    if (const std::chrono::milliseconds own(join.limit_ms); join.limit_ms && own < s->timeout) {
      s->timeout = own;
      s->timeout_name = "the communicator's own timeout";
      s->deadline = std::min(s->deadline, Clock::now() + own);
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
    for (const ConnectionPtr& c : s->joined) c->send(kTable, s->members.data(), s->members.size() * sizeof(Member));
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
    for (const ConnectionPtr& c : s->joined) c->send(kNames, all.data(), all.size());
  }

  void linked(const std::shared_ptr<Session>& s, const ConnectionPtr& connection, const std::string& failure) {
    connection->linked = true;
    if (!failure.empty()) return end(s, HCCL_E_REMOTE, "rank " + std::to_string(connection->rank) + ": " + failure);
    if (!std::all_of(s->joined.begin(), s->joined.end(), [](const ConnectionPtr& c) { return c->linked; })) return;
    forget(s);  // first: whoever returns from initialisation finds the port free
    // All has been read that was sent before: so little is taken at once. A death is seen on the local or the control connection.
    for (const ConnectionPtr& c : s->joined) c->send(kGo, this_process().id.data(), sizeof(Key));
    if (!Hosts(s->members, 0).several()) return;
    std::vector<std::pair<Fd, Member>> stay;
    for (const ConnectionPtr& c : s->joined) stay.emplace_back(std::move(c->socket), s->members[c->rank]);
    serve_control(std::move(stay));
  }

  void end(const std::shared_ptr<Session>& s, HcclResult code, const std::string& text) {
    forget(s);
    for (const ConnectionPtr& c : s->joined) send_failure(*c, code, text);
  }

  void forget(const std::shared_ptr<Session>& s) {
    for (const ConnectionPtr& c : s->joined) hub::unwatch(c->socket.get());
    sessions_.erase(name_of(s->key));
    if (!sessions_.empty()) return;
    close_listener();
    while (!strangers_.empty()) leave(strangers_.front());
  }

  bool tick() {
    if (std::exchange(paused_, false) && listener_) watch_listener();
    const Deadline now = Clock::now();
    std::vector<std::shared_ptr<Session>> over;
    while (!strangers_.empty() && now > strangers_.front()->deadline) leave(strangers_.front());  // by age
    for (auto& [name, s] : sessions_) {
      for (const ConnectionPtr& c : s->joined) c->flush();
      if (now > s->deadline) over.push_back(s);
    }
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
              (s->table_sent ? " was not linked" : " did not connect") + " within " + seconds_text(s->timeout) +
              " s (" + s->timeout_name + ")");
    }
    ticking_ = !sessions_.empty();
    return ticking_;
  }

  Fd listener_;
  std::string address_;
  uint16_t port_ = 0;
  bool ticking_ = false, paused_ = false;
  std::unique_ptr<Whitelist> whitelist_;
  std::map<Key, std::shared_ptr<Session>> sessions_;  // by name_of(key)
  std::deque<ConnectionPtr> strangers_;               // by arrival
};

}  // namespace

RootInfo open_session(const Settings& s, int device, const Key& key, const std::string& address, uint16_t fixed_port) {
  RootInfo info;
  hub::call([&] { info = Server::get().open(s, device, key, address, fixed_port); });
  return info;
}

}  // namespace softnpu::hccl
