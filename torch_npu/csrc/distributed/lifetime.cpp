// See group.h: splitting, timeouts, meeting over the store, and all that ends a group or begins it anew.
#include <c10/util/Logging.h>

#include <algorithm>

#include "csrc/cann/api.h"
#include "csrc/core/device.h"
#include "csrc/distributed/check.h"
#include "csrc/distributed/group.h"

namespace npu::distributed {
namespace {

std::string text_of(const std::exception_ptr& failure) {
  try {
    std::rethrow_exception(failure);
  } catch (const c10::Error& error) {
    return error.what_without_backtrace();
  } catch (const std::exception& error) {
    return error.what();
  }
}

}  // namespace

void ProcessGroupHCCL::setTimeout(std::chrono::milliseconds timeout) {
  std::lock_guard<std::mutex> lock(mutex_);
  options_->timeout = timeout;
  bool all = true;
  for (const auto& [device, place] : devices_)
    for (const auto& c : place->all()) all &= c->set_timeout(timeout);
  if (!all) {
    TORCH_WARN_ONCE(
        "ProcessGroupHCCL: this CANN takes a communicator's timeout only when it is made: a longer one than "
        "it was made with has no effect");
  }
}

c10::intrusive_ptr<c10d::Backend> ProcessGroupHCCL::split(const c10::intrusive_ptr<c10d::Store>& store,
                                                          const std::vector<int>& ranks,
                                                          const c10::intrusive_ptr<c10d::Backend::Options>& options) {
  const auto* const own = dynamic_cast<const Options*>(options.get());
  TORCH_CHECK_TYPE(own, "ProcessGroupHCCL: split: the options must be ProcessGroupHCCL.Options");
  // Collective over the whole group, also for those who are not in `ranks`.
  const c10::Device device(c10::DeviceType::PrivateUse1, own_device());
  const auto parent = whole(device.index());
  uint64_t id;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    id = ++splits_;
  }
  const auto mine = std::find(ranks.begin(), ranks.end(), rank_);
  if (mine == ranks.end()) return nullptr;
  auto copy = c10::make_intrusive<Options>(*own);
  if (const auto& global = options_->global_ranks_in_group; static_cast<int>(global.size()) == size_) {
    copy->global_ranks_in_group.clear();
    for (const int r : ranks) copy->global_ranks_in_group.push_back(global.at(static_cast<size_t>(r)));
  }
  auto child = c10::make_intrusive<ProcessGroupHCCL>(store, static_cast<int>(mine - ranks.begin()),
                                                     static_cast<int>(ranks.size()), std::move(copy), parent,
                                                     std::vector<uint32_t>(ranks.begin(), ranks.end()), id);
  child->setBoundDeviceId(device);
  child->whole(device.index());
  return child;
}

// In the store: who arrives leaves a word of its own, and is answered under it: a group before this one, over the same store, has
// left others.
void ProcessGroupHCCL::monitoredBarrier(const c10d::BarrierOptions& opts, bool wait_all_ranks) {
  const auto limit = opts.timeout == c10d::kUnsetTimeout ? options_->timeout : opts.timeout;
  const auto end = std::chrono::steady_clock::now() + limit;
  const std::string key = "monitored_barrier/" + std::to_string(++barriers_) + "/";
  const auto arrival = [&](int rank) { return key + std::to_string(rank); };
  const auto left = [&] {
    const auto rest = std::chrono::duration_cast<std::chrono::milliseconds>(end - std::chrono::steady_clock::now());
    return std::max(rest, std::chrono::milliseconds(1));
  };
  if (rank_) {
    const std::string word = Meeting::random_word();
    store_->set(arrival(rank_), std::vector<uint8_t>(word.begin(), word.end()));
    try {
      // Rank 0 says who is missing when its time is over, a moment after ours.
      store_->wait({key + word}, left() + std::chrono::seconds(5));
    } catch (const c10::DistStoreError&) {  // its time is over; a store that is lost says so itself
      C10_THROW_ERROR(DistBackendError, c10::str("[Rank ", rank_, "]: rank 0 failed to pass monitored_barrier in ",
                                                 limit.count(), " ms"));
    }
    const std::vector<uint8_t> text = store_->get(key + word);
    store_->deleteKey(key + word);
    if (text.size() > 1) C10_THROW_ERROR(DistBackendError, std::string(text.begin(), text.end()));
    return;
  }
  std::vector<int> missing;
  std::vector<std::string> words;
  for (int r = 1; r < size_ && (missing.empty() || wait_all_ranks); ++r) {
    try {
      store_->wait({arrival(r)}, left());
      const std::vector<uint8_t> word = store_->get(arrival(r));
      words.emplace_back(word.begin(), word.end());
      store_->deleteKey(arrival(r));
    } catch (const c10::DistStoreError&) {
      missing.push_back(r);
    }
  }
  const std::string text = c10::str("[Rank 0]: Rank", missing.size() > 1 ? "s " : " ", c10::Join(", ", missing),
                                    " failed to pass monitored_barrier in ", limit.count(), " ms");
  const std::vector<uint8_t> answer =
      missing.empty() ? std::vector<uint8_t>{1} : std::vector<uint8_t>(text.begin(), text.end());
  for (const std::string& word : words) store_->set(key + word, answer);
  if (!missing.empty()) C10_THROW_ERROR(DistBackendError, text);
}

void ProcessGroupHCCL::eagerConnectSingleDevice(at::Device device) {
  eager_ = true;
  whole(device.index());
}

c10d::ErrorType ProcessGroupHCCL::getError() {
  return watched_->error().empty() ? c10d::ErrorType::SUCCESS : c10d::ErrorType::COMM_ERROR;
}

// Works first: who waits for one is told why. Then what the streams wait in, so that they come free.
void ProcessGroupHCCL::give_up(const std::string& reason) {
  watched_->fail(reason);
  std::map<c10::DeviceIndex, std::shared_ptr<OnDevice>> devices;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    devices = devices_;
  }
  for (const auto& c : communicators()) c->end();
  for (const auto& [device, place] : devices) place->lanes.abort();
}

void ProcessGroupHCCL::abort() {
  {
    std::lock_guard<std::mutex> lock(mutex_);
    if (closed_) return;
    closed_ = true;
  }
  give_up(c10::str("rank ", rank_, " aborted the group"));
  watched_->close();
  mailbox_.close();
  std::lock_guard<std::mutex> lock(mutex_);
  devices_.clear();
}

void ProcessGroupHCCL::shutdown() {
  {
    std::lock_guard<std::mutex> lock(mutex_);
    if (closed_) return;
  }
  if (!watched_->error().empty()) return abort();
  // What is queued must not find its communicator gone on a real device; here it would keep it alive. A failure is told where its
  // work or the device is waited for, whether the watchdog has seen it or not: the end of the group is not that place.
  if (const auto failure = watched_->wait_for_all()) {
    LOG(WARNING) << "ProcessGroupHCCL: rank " << rank_ << " ends a group after a failure: " << text_of(failure);
    return abort();
  }
  {
    std::lock_guard<std::mutex> lock(mutex_);
    closed_ = true;
  }
  mailbox_.close();
  watched_->close();
  std::lock_guard<std::mutex> lock(mutex_);
  // Now, though a work that somebody keeps holds it, too: the others must hear that this rank has left, not that it died.
  for (const auto& [device, place] : devices_)
    for (const auto& c : place->all()) c->end();
  devices_.clear();
}

void ProcessGroupHCCL::reinit(bool rebuild) {
  TORCH_CHECK(!coalescing_.mine(), "ProcessGroupHCCL: reinit among coalesced calls; end their block first");
  if (rebuild) {
    give_up(c10::str("rank ", rank_, " made the group's communicators anew"));
    {
      std::lock_guard<std::mutex> lock(mutex_);
      TORCH_CHECK(!closed_, "ProcessGroupHCCL: the group was destroyed");
      devices_.clear();
      joined_.clear();
      ++generation_;
      watched_->reset(/*communicators=*/true);
    }
    return let_others_ask();
  }
  std::map<c10::DeviceIndex, std::shared_ptr<OnDevice>> devices;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    TORCH_CHECK(!closed_, "ProcessGroupHCCL: the group was destroyed");
    devices = devices_;
  }
  watched_->fail(c10::str("rank ", rank_, " resumed the group"));
  for (const auto& [device, place] : devices) {
    const NPUGuard guard(device);
    place->lanes.abort();
    for (const auto& c : communicators_on(*place)) c->resume();
  }
  watched_->reset(/*communicators=*/false);
}

std::shared_ptr<Communicator> ProcessGroupHCCL::existing(int rank, bool make) {
  const c10::DeviceIndex index = own_device();
  {
    std::lock_guard<std::mutex> lock(mutex_);
    // The vendor's argument is a rank, from which it guesses the device; where that has a communicator, it is meant.
    for (const auto device : {static_cast<c10::DeviceIndex>(rank % std::max<int>(device_count(), 1)), index}) {
      const auto found = devices_.find(device);
      if (found != devices_.end() && found->second->communicator) return found->second->communicator;
    }
  }
  return make ? whole(index) : nullptr;
}

uintptr_t ProcessGroupHCCL::hccl_comm(int rank, bool make) {
  const auto communicator = existing(rank, make);
  return communicator ? reinterpret_cast<uintptr_t>(communicator->handle()) : 0;
}

std::string ProcessGroupHCCL::hccl_comm_name(int rank, bool make) {
  const auto communicator = existing(rank, make);
  if (!communicator) return {};
  char name[COMM_NAME_MAX_LENGTH] = {};
  HCCL_CHECK(HCCL_OPTIONAL(HcclGetCommName)(communicator->handle(), name));
  return name;
}

}  // namespace npu::distributed
