// A communicator as one rank sees it: who its peers are, the board they share, the order of its operations, and its error.
// What it is not: the making of one (init.cpp), the work of an operation (execute.cpp, messages.cpp).
// Who calls it: the exported functions through a handle (submit.h); streams' threads through tasks (submit.cpp).
#pragma once

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "softnpu/hccl/epoch.h"
#include "softnpu/hccl/member.h"
#include "softnpu/hccl/network/control.h"
#include "softnpu/hccl/network/hosts.h"
#include "softnpu/hccl/network/wire.h"
#include "softnpu/hccl/peers.h"
#include "softnpu/hccl/schedule.h"
#include "softnpu/hccl/settings.h"
#include "softnpu/hccl/staging.h"

namespace softnpu::hccl {

struct Options {
  std::string name;
  std::chrono::milliseconds exec_timeout;  // when it is made; Communicator::limit_ms() is what holds
  std::chrono::seconds host_timeout;
  std::chrono::milliseconds connect_timeout;  // of its making
  std::vector<uint32_t>
      first;  // its ranks as the communicator that everything was split from counts them; empty: as it does itself
};

class Operation;

class Communicator : public std::enable_shared_from_this<Communicator> {
 public:
  Communicator(const Key& key, uint32_t rank, std::vector<Member> members, Options options);
  ~Communicator();

  // Links to the peers and gets the shared page. After it the communicator is usable.
  void link(Patience& patience);
  // Where ranks run on several hosts: the connection that tells of the others. Before the first operation.
  void connect_hosts(ControlLinkPtr link);
  const ControlLinkPtr& control() const { return control_; }
  // Another epoch, after an error; every rank must call it. What is still queued or running ends with the one before.
  void resume();
  // HcclCommDestroy: this rank takes part no more. What it has not finished ends with an error, here and at the other ranks.
  void close();

  uint32_t rank() const { return rank_; }
  uint32_t host_leader() const { return hosts_.leader(hosts_.mine()); }
  uint32_t size() const { return static_cast<uint32_t>(members_.size()); }
  const Key& key() const { return key_; }
  const std::vector<Member>& members() const { return members_; }
  const Options& options() const { return options_; }
  EpochPtr epoch() const;
  // How a rank is called in errors: "3", or of a communicator made of a part of another's ranks "3 (global rank 0)".
  std::string name_of(const std::vector<uint32_t>& ranks) const;
  // The ranks of a communicator of these ranks of this one, as the first communicator counts them.
  std::vector<uint32_t> first_of(const std::vector<uint32_t>& ranks) const;
  std::mutex& submit_mutex() { return submit_mutex_; }
  // How long an operation waits for others; 0: for ever. A change counts for those that wait already.
  std::atomic<int64_t>& limit_ms() { return limit_ms_; }
  // Between the two a call is queued or runs. begin() throws when the communicator was destroyed.
  void begin();
  void end() noexcept { unfinished_.fetch_sub(1, std::memory_order_seq_cst); }
  void require_open() const;

  // How often members made a sub-communicator of this number: its key must differ each time.
  uint32_t count_sub(uint64_t id);

  // In the turnstile.
  void execute(const Call& call, Epoch& epoch);  // with the call's own limit, where it has one
  void execute(const Call& call, Epoch& epoch, const std::atomic<int64_t>& limit_ms, const char* limit_name);
  void exchange(const std::vector<Transfer>& transfers, const std::vector<uint32_t>& numbers, Epoch& epoch);

  void abort(Epoch& epoch, HcclResult code, const std::string& text) noexcept;
  // After an error the callers' buffers are theirs again: waits until no rank of this host writes into them any more. A rank that
  // stands still cannot be waited for: then it is named. Empty: all have stopped.
  std::string settle(Epoch& epoch) noexcept;
  bool aborted() const noexcept { return epoch()->aborted(); }
  Error error() const { return epoch()->error(); }

  // For the control thread: all communicators of the process, one after another, none of them ending meanwhile.
  static void for_each(const std::function<void(Communicator&)>& visit);
  void heard(const Heard& heard);
  void process_gone(const Key& process, uint32_t pid, Farewell how);
  void say_farewell(Left how) noexcept;
  void root_lost(const Key& process, Farewell how);

 private:
  friend class Operation;
  friend class Collective;
  friend class Exchange;
  struct Buffers;
  std::string describe(const Call& call) const;
  void compare(const Call& call, const Board& board, uint64_t s, uint32_t other) const;
  void work_inline(const Call& call, const Board& board, uint64_t s, const std::vector<Segment>& plan);
  void work_in_place(const Call& call, const Board& board, uint64_t s, const std::vector<Segment>& plan,
                     Patience& patience);
  Place place(const void* buffer, uint64_t bytes, Staging* staging) const;
  std::byte* resolve(uint32_t rank, const Place& place, Patience& patience);
  bool same_process(uint32_t rank) const { return members_[rank].process.id == this_process().id; }
  void heed_early_error();                                             // what others said before this rank listened
  void abort_here(HcclResult code, const std::string& text) noexcept;  // the others know already
  void subscribe();
  void heed_those_gone();  // ranks whose death was reported before this epoch could hear of it
  std::shared_ptr<Board> shared_board(const Key& key, Patience& patience);
  // Several hosts (network/):
  void mirror(const Call& call, Epoch& epoch, uint64_t s, Patience& patience);
  void work_across(const Call& call, Epoch& epoch, uint64_t s, const std::vector<Segment>& plan,
                   std::function<std::string()>* blame, Patience& patience);
  struct Presence {
    std::set<uint32_t> came, spoke;  // ranks that have come to the operation; that answered at all
  };
  Presence ask_who_came(const Epoch& epoch, uint64_t s);
  std::string ranks_where(const std::function<bool(uint32_t)>& test) const;
  std::string process_of(uint32_t rank) const;  // "process 4242 on 10.0.0.2"
  std::string root_name() const;                // "rank 0 (process 4242 on 10.0.0.2)"; with several hosts

  const Key key_;
  const uint32_t rank_;
  const std::vector<Member> members_;
  const Options options_;
  const Hosts hosts_;
  std::vector<std::shared_ptr<Peer>> peers_;  // by rank; null in our own process and on other hosts
  mutable std::mutex epoch_mutex_;            // guards the next; a leaf
  EpochPtr epoch_;
  uint32_t resumed_ = 0;
  std::mutex submit_mutex_;
  std::atomic<int64_t> limit_ms_;
  std::atomic<uint32_t> unfinished_{0};
  std::atomic<bool> closed_{false};
  std::mutex subs_mutex_;  // guards the next
  std::map<uint64_t, uint32_t> subs_;
  struct Known {
    uint64_t arena = 0;
    std::byte* base = nullptr;
  };
  std::vector<std::array<Known, 2>> known_;  // by rank: the arenas last used, so that a call costs no lock
  std::mutex known_mutex_;
  Wire* wire_ = nullptr;  // the next two: with several hosts
  ControlLinkPtr control_;
  std::mutex answers_mutex_;              // guards the next: who answered that it had come to the operation asked about
  std::map<uint32_t, Presence> answers_;  // by operation; the rank's bell rings with each answer
};
using CommunicatorPtr = std::shared_ptr<Communicator>;

}  // namespace softnpu::hccl
