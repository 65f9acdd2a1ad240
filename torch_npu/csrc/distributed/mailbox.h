// Where ranks are asked to take part in a message's communicator while they are busy elsewhere. The first message between two ranks
// of a group makes a communicator of these two, for which both are needed; in a ring of sends each rank waits in its own. So who
// comes first asks the other over the store, and a thread of the other's joins. Not needed once the group has a communicator of all.
// What it is not: the meeting itself (meeting.h).
// Who calls it: group.cpp, connect.cpp and lifetime.cpp; python/distributed.cpp closes all at the end.
// A thread and a connection for each store that groups with an open mailbox share. Thread-safe.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include <torch/csrc/distributed/c10d/Store.hpp>

#include "csrc/cann/export.h"

namespace npu::distributed {

// To rank `to` of the group: rank `from` waits for it under `key`.
void ask(c10d::Store& store, const std::string& key, int from, int to);

struct Asked;

class Mailbox {
 public:
  // Both keep the owner alive while they run, and do nothing once it has ended.
  struct Owner {
    std::function<bool()> able;  // it knows on which device it would join
    // Of rank `peer`, over a connection that nobody waits in. Blocks until both are there, or throws.
    std::function<void(int peer, c10d::Store& store)> join;
  };
  Mailbox() = default;
  ~Mailbox() { close(); }
  Mailbox(const Mailbox&) = delete;

  void open(const c10::intrusive_ptr<c10d::Store>& store, std::string key, int rank, int size, Owner owner);
  // Nobody is asked from now on.
  void stop() noexcept;
  // The owner is let go, and so is the store: now, unless a join is waiting for an answer of it.
  void close() noexcept;

 private:
  std::shared_ptr<Asked> asked_;
};

// Throws once close_all_mailboxes was called: for those who wait in a join.
void mailboxes_are_open();
NPU_API void close_all_mailboxes() noexcept;  // before the interpreter ends

}  // namespace npu::distributed
