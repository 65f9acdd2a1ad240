// The other processes of this host: one local connection each, however many communicators they share. It passes memory
// descriptors (arenas, boards), and its hang-up says that the process is gone.
// What it is not: membership of a communicator (communicator.h). Lock order: Communicator's list, then Peers; never the reverse.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <vector>

#include "softnpu/hccl/board.h"
#include "softnpu/hccl/member.h"
#include "softnpu/hccl/socket.h"

namespace softnpu::hccl {

// A peer's memfd in our address space.
class Mapping {
 public:
  Mapping(Fd memfd, size_t size);
  ~Mapping();
  Mapping(const Mapping&) = delete;
  std::byte* base() const { return base_; }

 private:
  std::byte* base_;
  size_t size_;
};

class Peer {
 public:
  Peer(const Key& id, Fd socket, uint32_t pid);
  // How the caller calls the peer's rank, should it be gone.
  using Name = std::function<std::string()>;
  // The peer's arena, mapped on first use.
  std::byte* arena(uint64_t id, const Name& rank, Patience& patience);
  // The board that the peer published under `key`, when it has.
  std::shared_ptr<Board> board(const Key& key, uint32_t ranks, const Name& rank, Patience& patience);
  uint32_t pid() const { return pid_; }
  const Key& id() const { return id_; }
  bool gone() const;
  bool said_goodbye() const;

 private:
  friend class Peers;
  struct Answer {
    bool here = false;
    Fd fd;
    uint64_t size = 0;
  };
  Answer ask(uint32_t type, uint64_t number, const Key& key, const Name& rank, Patience& patience);

  const Key id_;
  const uint32_t pid_;
  Fd socket_, pidfd_;
  bool gone_ = false, said_goodbye_ = false;  // guarded by Peers' mutex, as all below
  std::map<uint64_t, std::unique_ptr<Mapping>> arenas_;
  std::map<uint64_t, Answer> answers_;  // by request number
  uint64_t next_request_ = 1;
};

class Peers {
 public:
  static Peers& get();

  // The connection to a process of this host: the smaller id connects, the other waits to be connected to.
  std::shared_ptr<Peer> connect(const Process& process, Patience& patience);

  // Called on the control thread when a process is gone; `orderly`: it said goodbye first.
  void on_gone(std::function<void(const Peer&, bool orderly)> callback);

  // What peers may ask this process for.
  void publish_board(const Key& key, std::shared_ptr<Board> board);
  void withdraw_board(const Key& key);
  std::shared_ptr<Board> own_board(const Key& key, Patience& patience);  // of another rank in this process
  void offer_arena(uint64_t id, int fd, uint64_t size);                  // cheap when it is known already

  // Drops mappings of peers and offered arenas: when the last communicator is gone.
  void forget_memory();

 private:
  Peers();
  struct Packet;
  struct Waiting {
    std::weak_ptr<Peer> peer;
    uint64_t request;
    Key key;
  };
  void accept_one();
  std::shared_ptr<Peer> admit(const Key& id, Fd socket, uint32_t pid);
  void readable(const std::shared_ptr<Peer>& peer);
  void lost(const std::shared_ptr<Peer>& peer);
  void answer_board(const std::shared_ptr<Peer>& peer, uint64_t request, const Key& key);
  void say_goodbye();

  friend class Peer;
  mutable std::mutex mutex_;
  Signal changed_;  // rings after whatever is waited for here
  Fd listener_;
  std::map<Key, std::shared_ptr<Peer>> peers_;
  std::set<Key> connecting_;  // two threads must not both connect to the same process
  std::map<Key, std::shared_ptr<Board>> boards_;
  std::vector<Waiting> waiting_;
  struct Offer {
    Fd fd;
    uint64_t size;
  };
  std::map<uint64_t, Offer> offers_;
  std::vector<std::function<void(const Peer&, bool)>> on_gone_;
};

}  // namespace softnpu::hccl
