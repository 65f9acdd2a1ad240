// Who joins a group's communicator without having called anything. HCCL makes one with all ranks of a group, also for a message
// between two of them; the others may be busy with each other, or wait for what comes after the message. So a first call that is a
// message asks all ranks over the store, and one thread of each process looks there and joins for the groups that it is asked for.
// What it is not: the meeting itself (communicator.cpp). A group of two needs none of it: both are in the message.
// Who calls it: group.cpp; python/distributed.cpp ends it. Thread-safe.
#pragma once

#include <functional>
#include <string>

#include <torch/csrc/distributed/c10d/Store.hpp>

#include "csrc/cann/export.h"

namespace npu::distributed {

// A group as the joiner sees it. All three are called from threads of the joiner's.
struct Guest {
  c10::weak_intrusive_ptr<c10d::Store> store;  // the group's
  std::string key;                             // of the communicator, in that store
  std::function<bool()> open;                  // it has no communicator, and was not ended
  std::function<bool()> able;                  // this rank knows on which device it would join
  std::function<void()> join;                  // blocks until all ranks are there; throws when joining_is_over() does
};

void join_when_asked(Guest guest);
// To all ranks of the group: this communicator is needed.
void ask_to_join(const c10::intrusive_ptr<c10d::Store>& store, const std::string& key);
// Throws once stop_joiner was called.
void joining_is_over();
NPU_API void stop_joiner();  // before the interpreter ends

}  // namespace npu::distributed
