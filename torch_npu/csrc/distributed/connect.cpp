// See group.h: which communicator a call goes over, and making it.
//
// A collective goes over that of all ranks. A message does, too, where it is there already; else over one of its two ranks, which
// the first message between them makes: HCCL needs all whom a communicator is for, and the others may never come to any call. Which
// of the two holds is settled in the store by the first message, as the ranks may come to it before and after a collective.
#include <algorithm>

#include "csrc/core/device.h"
#include "csrc/core/process_device.h"
#include "csrc/core/recovery.h"
#include "csrc/distributed/group.h"
#include "csrc/distributed/settings.h"

namespace npu::distributed {
namespace {

// How long the mailbox waits for who asked: it is there already, or has given up.
constexpr auto kJoinLimit = std::chrono::seconds(5);

std::string mailbox_key(uint64_t generation) { return "hccl_messages/" + std::to_string(generation); }

// What a first message may go over.
constexpr const char* kOverAll = "all";
constexpr const char* kOverTwo = "two";

}  // namespace

// What is between this rank and another one.
struct ProcessGroupHCCL::Pair {
  int peer;
  uint64_t generation;
  size_t number;  // of its communicators: a rank that uses several devices makes several
  c10d::Store& store;
  std::chrono::milliseconds limit;
  std::string key(int rank) const {
    return c10::str(mailbox_key(generation), "/", std::min(rank, peer), ":", std::max(rank, peer), "/", number);
  }
};

Communicators ProcessGroupHCCL::OnDevice::all() const {
  Communicators all;
  if (communicator) all.push_back(communicator);
  for (const auto& [peer, c] : with)
    if (c != communicator) all.push_back(c);
  return all;
}

Communicators ProcessGroupHCCL::communicators() const {
  std::lock_guard<std::mutex> lock(mutex_);
  Communicators all;
  for (const auto& [device, place] : devices_)
    for (const auto& c : place->all()) all.push_back(c);
  return all;
}

Communicators ProcessGroupHCCL::communicators_on(const OnDevice& place) const {
  std::lock_guard<std::mutex> lock(mutex_);
  return place.all();
}

void ProcessGroupHCCL::check_usable() const {
  std::lock_guard<std::mutex> lock(mutex_);
  check_usable_locked(generation_);
}

void ProcessGroupHCCL::check_usable_locked(uint64_t generation) const {
  TORCH_CHECK(!closed_, "ProcessGroupHCCL: the group was destroyed");
  const auto error = watched_->error();
  if (!error.empty()) C10_THROW_ERROR(DistBackendError, "ProcessGroupHCCL: the group failed before: " + error);
  TORCH_CHECK(generation_ == generation, "ProcessGroupHCCL: reinit made the group's communicators anew");
}

uint64_t ProcessGroupHCCL::generation() const {
  std::lock_guard<std::mutex> lock(mutex_);
  return generation_;
}

std::function<void()> ProcessGroupHCCL::still_usable(uint64_t generation) const {
  return [this, generation] {
    std::lock_guard<std::mutex> lock(mutex_);
    check_usable_locked(generation);
  };
}

std::shared_ptr<ProcessGroupHCCL::OnDevice> ProcessGroupHCCL::on(c10::DeviceIndex device) {
  std::lock_guard<std::mutex> lock(mutex_);
  return on_locked(device);
}

const std::shared_ptr<ProcessGroupHCCL::OnDevice>& ProcessGroupHCCL::on_locked(c10::DeviceIndex device) {
  TORCH_CHECK(!closed_, "ProcessGroupHCCL: the group was destroyed");
  std::shared_ptr<OnDevice>& place = devices_[device];
  if (!place) place = std::make_shared<OnDevice>(device, options_->is_high_priority_stream || settings().high_priority);
  return place;
}

std::shared_ptr<Communicator> ProcessGroupHCCL::keep(std::shared_ptr<Communicator> made, c10::DeviceIndex device,
                                                     uint64_t generation, const std::function<void(OnDevice&)>& where) {
  std::lock_guard<std::mutex> lock(mutex_);
  check_usable_locked(generation);
  where(*on_locked(device));
  watched_->add(made);
  return made;
}

c10::DeviceIndex ProcessGroupHCCL::own_device() const {
  if (getBoundDeviceId()) return getBoundDeviceId()->index();
  std::lock_guard<std::mutex> lock(mutex_);
  return last_device_ ? *last_device_ : current_device();
}

c10::DeviceIndex ProcessGroupHCCL::device_to_join_on() const {
  if (getBoundDeviceId()) return getBoundDeviceId()->index();
  std::lock_guard<std::mutex> lock(mutex_);
  return last_device_ ? *last_device_ : process_device();
}

std::string ProcessGroupHCCL::communicator_name(const std::string& which) const {
  const std::string& uid = getGroupUid().empty() ? options_->group_name : getGroupUid();
  return uid.empty() ? "" : uid.substr(0, 90) + "/" + which;
}

// --- of all ranks

std::shared_ptr<Communicator> ProcessGroupHCCL::whole(c10::DeviceIndex device) {
  const auto found = [&]() -> std::shared_ptr<Communicator> {
    refuse_stopped(device);
    check_usable();
    std::lock_guard<std::mutex> lock(mutex_);
    last_device_ = device;
    const auto place = devices_.find(device);
    return place == devices_.end() ? nullptr : place->second->communicator;
  };
  if (auto communicator = found()) return communicator;
  std::lock_guard<std::mutex> making(making_);
  if (auto communicator = found()) return communicator;
  const uint64_t generation = this->generation();
  auto made = make_whole(device, generation);
  keep(made, device, generation, [&](OnDevice& place) { place.communicator = made; });
  mailbox_.stop();  // from now on a first message takes this one
  return made;
}

std::shared_ptr<Communicator> ProcessGroupHCCL::make_whole(c10::DeviceIndex device, uint64_t generation) {
  const NPUGuard guard(device);
  ensure_context();
  size_t number = 0;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    // Ranks use one device each, in the same order of first use: the number of the communicator is the same everywhere.
    for (const auto& [index, place] : devices_) number += place->communicator != nullptr;
  }
  const std::string name = communicator_name(std::to_string(number));
  if (parent_ && !number && !generation)
    return std::make_shared<Communicator>(*parent_, ranks_in_parent_, split_id_, rank_, name, *options_);
  std::vector<int> ranks;
  for (int r = 0; r < size_; ++r) ranks.push_back(r);
  const Meeting meeting{*store_,
                        c10::str("hccl_root_info/", number, "/", generation),
                        std::move(ranks),
                        static_cast<size_t>(rank_),
                        size_,
                        std::min(options_->timeout, settings().connect_timeout),
                        still_usable(generation),
                        {}};
  return std::make_shared<Communicator>(meeting, name, *options_);
}

// --- of two

std::mutex& ProcessGroupHCCL::making_with(int peer) {
  std::lock_guard<std::mutex> lock(mutex_);
  return making_with_[peer];
}

ProcessGroupHCCL::Pair ProcessGroupHCCL::pair(int peer, c10d::Store& store) const {
  std::lock_guard<std::mutex> lock(mutex_);
  size_t number = 0;
  for (const auto& [index, place] : devices_) number += place->with.count(peer);
  return {peer, generation_, number, store, std::min(options_->timeout, settings().connect_timeout)};
}

std::shared_ptr<Communicator> ProcessGroupHCCL::with(c10::DeviceIndex device, int peer) {
  const std::shared_ptr<OnDevice> place = on(device);
  const auto found = [&]() -> std::shared_ptr<Communicator> {
    refuse_stopped(device);
    check_usable();
    std::lock_guard<std::mutex> lock(mutex_);
    last_device_ = device;
    const auto made = place->with.find(peer);
    if (made == place->with.end()) return nullptr;
    joined_.erase(peer);
    return made->second;
  };
  if (auto communicator = found()) return communicator;
  std::lock_guard<std::mutex> making(making_with(peer));
  if (auto communicator = found()) return communicator;
  bool there;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    const auto joined = joined_.find(peer);
    TORCH_CHECK(joined == joined_.end(), "ProcessGroupHCCL: a message on npu:", static_cast<int>(device),
                ", but this rank joined rank ", peer, " on npu:", joined == joined_.end() ? -1 : joined->second,
                " when that one's message came first: call torch.npu.set_device before init_process_group, or pass "
                "device_id to it");
    there = place->communicator != nullptr;
  }
  const Pair between = pair(peer, *store_);
  std::shared_ptr<Communicator> made;
  if (size_ <= 2 || peer == rank_ || (eager_ && !between.generation)) {
    made = whole(device);
  } else {
    const Meeting meeting = meeting_of(between);
    const bool all = settled_wish(meeting, come(meeting), there ? kOverAll : kOverTwo) == kOverAll;
    made = all ? whole(device) : make_pair(device, between, meeting);
  }
  return keep(made, device, between.generation, [&](OnDevice& place) { place.with[peer] = made; });
}

Meeting ProcessGroupHCCL::meeting_of(const Pair& between) {
  const int low = std::min(rank_, between.peer), high = std::max(rank_, between.peer);
  Meeting meeting{between.store,
                  between.key(rank_),
                  {low, high},
                  rank_ == low ? 0U : 1U,
                  size_,
                  between.limit,
                  still_usable(between.generation),
                  {}};
  // Its other devices' are made by calls of both alone.
  if (!between.number)
    meeting.asked = [=, this] { ask(between.store, mailbox_key(between.generation), rank_, between.peer); };
  return meeting;
}

std::shared_ptr<Communicator> ProcessGroupHCCL::make_pair(c10::DeviceIndex device, const Pair& between,
                                                          const Meeting& meeting) {
  const NPUGuard guard(device);
  ensure_context();
  const std::string name = c10::str(meeting.ranks[0], ":", meeting.ranks[1], "/", between.number);
  return std::make_shared<Communicator>(meeting, communicator_name(name), *options_);
}

void ProcessGroupHCCL::join(int peer, c10d::Store& store) {
  const c10::DeviceIndex device = device_to_join_on();
  const std::unique_lock<std::mutex> making(making_with(peer), std::try_to_lock);
  if (!making || device < 0) return;  // this rank's own message is there, too
  const Pair between = pair(peer, store);
  Meeting meeting = meeting_of(between);
  if (between.number || !waits(meeting, peer, kOverTwo)) return;
  meeting.limit = std::min<std::chrono::milliseconds>(meeting.limit, kJoinLimit);
  meeting.asked = {};
  meeting.usable = [usable = meeting.usable] {
    mailboxes_are_open();
    usable();
  };
  const auto made = make_pair(device, between, meeting);
  keep(made, device, between.generation, [&](OnDevice& place) {
    place.with[peer] = made;
    joined_[peer] = device;
  });
}

void ProcessGroupHCCL::let_others_ask() {
  if (size_ <= 2) return;
  // Weak: a join holds the group, which may end meanwhile; the mailbox alone does not. (See release_resources.)
  const c10::weak_intrusive_ptr<ProcessGroupHCCL> self(c10::intrusive_ptr<ProcessGroupHCCL>::reclaim_copy(this));
  const auto able = [self] {
    const auto group = self.lock();
    return group && group->device_to_join_on() >= 0;
  };
  const auto join = [self](int peer, c10d::Store& store) {
    if (const auto group = self.lock()) group->join(peer, store);
  };
  mailbox_.open(store_, mailbox_key(generation()), rank_, size_, {able, join});
}

}  // namespace npu::distributed
