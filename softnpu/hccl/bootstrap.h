// How ranks that know only the root info become a communicator: all tell the root who they are, the root tells all who everybody
// is, all confirm that they are linked, and only then does initialisation return. Any failure on the way is every rank's.
// What it is not: used after initialisation. Server: the root's control thread (bootstrap_server.cpp); client: each rank.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "softnpu/hccl/handshake.h"
#include "softnpu/hccl/member.h"
#include "softnpu/hccl/root_info.h"
#include "softnpu/hccl/settings.h"
#include "softnpu/hccl/socket.h"

namespace softnpu::hccl {

enum BootstrapFrame : uint32_t { kHello = 1, kChallenge, kJoin, kTable, kName, kNames, kLinked, kGo, kFailed };

struct Join {  // with it a rank stops being a stranger
  Digest proof;
  struct Said {
    uint32_t ranks, limit_ms;  // how long it takes part
    Member member;
  } said;
};

// Opens a session: this process listens, and answers those who prove that they know the key. `fixed_port`: listen there or fail.
RootInfo open_session(const Settings& s, int device, const Key& key, const std::string& address,
                      uint16_t fixed_port = 0);

// Of a root whose info is there: it listened before it gave that. By a rank table the ranks may come before it.
enum class Root { kListens, kComes };

// A rank's side. Destroying it before confirm() tells the root nothing; the root sees the hang-up.
class Bootstrap {
 public:
  // Sends `self` and waits for the table of all ranks.
  // `limit`: how long all may take together.
  Bootstrap(const Settings& s, const RootInfo& root, Root how, uint32_t ranks, const Member& self,
            std::chrono::milliseconds limit);
  const std::vector<Member>& members() const { return members_; }
  // Several hosts: how this process is reached through the network (Wire::name), for those of all others, by rank.
  std::vector<std::string> exchange_names(const std::string& own);
  // Tells the root that this rank is linked (empty) or why not, and waits until all are.
  void confirm(const std::string& failure);
  // After confirm(): the connection, which lives on as the communicator's control connection, and the root's process.
  Fd release() { return std::move(socket_); }
  const Key& root_process() const { return root_process_; }
  // Throws when the root reported a failure meanwhile or the time is over: to be called while linking.
  void check() const;
  Deadline deadline() const { return deadline_; }

 private:
  void enter(const RootInfo& root, Root how, uint32_t ranks, const Member& self);
  Frame receive(const char* what);

  Fd socket_;
  std::string root_;
  const std::chrono::milliseconds limit_;
  const Deadline deadline_ = Clock::now() + limit_;
  std::vector<Member> members_;
  Key root_process_{};
};

}  // namespace softnpu::hccl
