// A communicator as one rank sees it: who its peers are, the board they share, the order of its operations, and its error.
// What it is not: the making of one (init.cpp), the work of an operation (execute.cpp, messages.cpp).
// Who calls it: the exported functions through a handle (handles.h); streams' threads through tasks (submit.cpp).
#pragma once

#include <atomic>
#include <condition_variable>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "softnpu/hccl/board.h"
#include "softnpu/hccl/member.h"
#include "softnpu/hccl/network/control.h"
#include "softnpu/hccl/network/hosts.h"
#include "softnpu/hccl/network/wire.h"
#include "softnpu/hccl/peers.h"
#include "softnpu/hccl/schedule.h"
#include "softnpu/hccl/settings.h"
#include "softnpu/hccl/staging.h"

namespace softnpu::hccl {

// Operations of a communicator run one after another in the order of their tickets, whatever streams they stand in.
class Turnstile {
 public:
  uint64_t take();
  void enter(uint64_t ticket);
  void leave();
  void skip(uint64_t ticket);  // a task that was dropped before it ran

 private:
  void pass_skipped();
  std::mutex mutex_;
  std::condition_variable moved_;
  uint64_t next_ = 0, serving_ = 0;
  std::set<uint64_t> skipped_;
};

// A rank of another host that left may have spoken before: what it said comes another way, and a moment later.
class LeftBehind {
 public:
  bool certain(bool somebody, bool far) {
    if (!somebody) return false;
    if (!far) return true;
    if (seen_ == Deadline{}) seen_ = Clock::now();
    return Clock::now() - seen_ > std::chrono::seconds(1);
  }

 private:
  Deadline seen_{};
};

struct Options {
  std::string name;
  std::chrono::seconds exec_timeout;
  uint32_t deterministic = 1;
  uint32_t buffer_mb = 200;
};

class Communicator : public std::enable_shared_from_this<Communicator> {
 public:
  Communicator(const Key& key, uint32_t rank, std::vector<Member> members, Options options);
  ~Communicator();

  // Links to the peers and gets the shared page; `late` throws when it takes too long. After it the communicator is usable.
  void link(const std::function<void()>& late);
  // Where ranks run on several hosts: the connection that tells of the others. Before the first operation.
  void connect_hosts(ControlLinkPtr link);
  const ControlLinkPtr& control() const { return control_; }
  // A fresh board after an error; every rank must call it.
  void resume();

  uint32_t rank() const { return rank_; }
  uint32_t host_leader() const { return hosts_.leader(hosts_.mine()); }
  uint32_t size() const { return static_cast<uint32_t>(members_.size()); }
  const Key& key() const { return key_; }
  const std::vector<Member>& members() const { return members_; }
  const Options& options() const { return options_; }
  Turnstile& turnstile() { return turnstile_; }
  std::mutex& submit_mutex() { return submit_mutex_; }
  // How often members made a sub-communicator of this number: its key must differ each time.
  uint32_t count_sub(uint64_t id);

  void execute(const Call& call) { execute(call, options_.exec_timeout, "HCCL_EXEC_TIMEOUT"); }
  void execute(const Call& call, std::chrono::seconds limit, const char* limit_name);
  // Numbers of the next message to or from a peer; taken in the order of the calls.
  std::vector<uint32_t> take_message_numbers(const std::vector<Transfer>& transfers);
  void exchange(const std::vector<Transfer>& transfers, const std::vector<uint32_t>& numbers);

  void abort(HcclResult code, const std::string& text) noexcept;
  bool aborted() const noexcept { return failed_.load(std::memory_order_acquire) || board_->aborted(); }
  Error error() const;

  // For the control thread: all communicators of the process, one after another, none of them ending meanwhile.
  static void for_each(const std::function<void(Communicator&)>& visit);
  void heard(const Heard& heard);
  void process_gone(const Key& process, uint32_t pid, bool orderly);
  void say_farewell() noexcept;
  void root_lost(const Key& process, bool orderly);

 private:
  struct Buffers;
  std::string describe(const Call& call) const;
  void compare(const Call& call, uint32_t s, uint32_t other) const;
  void work_inline(const Call& call, uint32_t s, const std::vector<Segment>& plan);
  void work_in_place(const Call& call, uint32_t s, const std::vector<Segment>& plan, const Buffers& mine,
                     const std::function<void()>& late);
  Place place(const void* buffer, uint64_t bytes, Staging* staging) const;
  std::byte* resolve(uint32_t rank, const Place& place, const std::function<void()>& late);
  bool same_process(uint32_t rank) const { return members_[rank].process.id == this_process().id; }
  void heed_early_error();                                             // what others said before this rank listened
  bool set_error(HcclResult code, const std::string& text) noexcept;   // true: it is the host's first
  void abort_here(HcclResult code, const std::string& text) noexcept;  // the others know already
  void subscribe();
  std::shared_ptr<Board> shared_board(const Key& key, const std::function<void()>& late);
  std::string missing(uint32_t s);
  // Several hosts (network/):
  void mirror(const Call& call, uint32_t s, const std::function<void()>& late);
  void work_across(const Call& call, uint32_t s, const std::vector<Segment>& plan, std::function<std::string()>* blame,
                   const std::function<void()>& late);
  std::set<uint32_t> ask_who_came(uint32_t s);
  bool arrived(uint32_t rank, uint32_t s) const;
  std::string ranks_where(const std::function<bool(uint32_t)>& test) const;

  const Key key_;
  const uint32_t rank_;
  const std::vector<Member> members_;
  const Options options_;
  const Hosts hosts_;
  std::vector<std::shared_ptr<Peer>> peers_;  // by rank; null in our own process and on other hosts
  std::shared_ptr<Board> board_;
  Key board_key_;
  uint32_t resumed_ = 0;
  Turnstile turnstile_;
  std::mutex submit_mutex_;
  uint32_t sequence_ = 0;     // of the next collective; moved in the turnstile only
  std::mutex numbers_mutex_;  // guards the next three
  std::vector<uint32_t> sent_, received_;
  std::map<uint64_t, uint32_t> subs_;
  struct Known {
    uint64_t arena = 0;
    std::byte* base = nullptr;
  };
  std::vector<std::array<Known, 2>> known_;  // by rank: the arenas last used, so that a call costs no lock
  std::mutex known_mutex_;
  Wire* wire_ = nullptr;  // the next two: with several hosts
  ControlLinkPtr control_;
  std::mutex answers_mutex_;  // guards the next two: who answered that it had come to the operation asked about
  std::condition_variable answers_changed_;
  std::map<uint32_t, std::set<uint32_t>> answers_;
  std::atomic<bool> failed_{false};  // the error below is set; the board's is the first one, this one is the fallback
  mutable std::mutex error_mutex_;
  Error own_error_{HCCL_SUCCESS, ""};
};
using CommunicatorPtr = std::shared_ptr<Communicator>;

}  // namespace softnpu::hccl
