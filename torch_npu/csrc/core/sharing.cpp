#include "csrc/core/sharing.h"

#include <c10/util/Exception.h>

#include <algorithm>
#include <cstring>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <tuple>
#include <type_traits>
#include <unordered_map>

#include "csrc/cann/checks.h"
#include "csrc/core/NPUStorageImpl.h"
#include "csrc/core/allocator.h"
#include "csrc/core/device.h"
#include "csrc/core/lifecycle.h"
#include "csrc/core/release_later.h"
#include "csrc/core/shared_import.h"
#include "csrc/core/shared_table.h"

namespace npu {
namespace {

using WeakStorage = c10::weak_intrusive_ptr<c10::StorageImpl>;

// What every message says of the memory, whoever sends it.
struct Place {
  SharedRegion region;
  uint64_t offset = 0;   // in the region
  uint64_t bytes = 0;    // of the storage
  uint64_t storage = 0;  // the owner's number for it
  int32_t device = 0;    // the owner's index
};

// A storage's memory in its owner: alive as long as a storage or a message needs it.
struct Sent {
  c10::DataPtr memory;
  Place place;
  std::vector<uint32_t> slots;  // messages about it; guarded by the state's mutex
  WeakStorage storage{c10::intrusive_ptr<c10::StorageImpl>()};
};

// A storage's memory in another process.
struct Received {
  std::unique_ptr<SharedHold> hold;  // let go of last: the owner may free then what was mapped here
  std::shared_ptr<SharedImport> import;
  Place place;
  SharedTicket origin;
};

struct Outstanding {
  std::shared_ptr<void> kept;  // Sent, or Received of a storage that is sent on
  std::weak_ptr<Sent> sent;
  int64_t channel = 0;
};

struct State {
  // Guards what is below. Taken before the table's; nothing is freed and CANN is not called while it is held.
  std::mutex mutex;
  std::unordered_map<uint32_t, Outstanding> outstanding;  // by slot of our table
  std::deque<uint32_t> order;                             // which to look at next; may name slots twice
  std::map<std::tuple<uint64_t, uint64_t, c10::DeviceIndex>, WeakStorage>
      received;                 // (owner's table, its storage, device asked for) → ours
  size_t received_limit = 128;  // above it, those that are gone are forgotten
  std::mutex first;             // taken before `mutex`; guards the last, and the making of a storage's Sent
  uint64_t next_storage = 1;
};

State& state() {
  static auto* const made = new State();  // leaked: storages are freed until the process is gone
  return *made;
}

using Kept = std::vector<std::shared_ptr<void>>;

// Looks at `most` messages. What they kept is the caller's to drop, without the lock.
void retire_some(State& s, size_t most, Kept& dropped) {
  for (; most > 0 && !s.order.empty(); --most) {
    const uint32_t slot = s.order.front();
    s.order.pop_front();
    const auto found = s.outstanding.find(slot);
    if (found == s.outstanding.end()) continue;
    if (!try_retire(slot)) {
      s.order.push_back(slot);
      continue;
    }
    if (const auto sent = found->second.sent.lock()) std::erase(sent->slots, slot);
    dropped.push_back(std::move(found->second.kept));
    s.outstanding.erase(found);
  }
}

// --- pointers of storages -------------------------------------------------------------------------------------------------

// As in allocator.cpp, a forked child and a finished process drop what they have: a lock may be held for ever there.
void free_sent(void* context) {
  auto* const held = static_cast<std::shared_ptr<Sent>*>(context);
  if (!held || !alive()) return;
  const std::shared_ptr<Sent> sent = std::move(*held);
  delete held;
  Kept dropped;
  State& s = state();
  const std::lock_guard<std::mutex> lock(s.mutex);
  for (size_t i = sent->slots.size(); i-- > 0;) {  // usually one or none
    const uint32_t slot = sent->slots[i];
    if (!try_retire(slot)) break;
    sent->slots.pop_back();
    const auto found = s.outstanding.find(slot);
    dropped.push_back(std::move(found->second.kept));
    s.outstanding.erase(found);
  }
}

void free_received(void* context) {
  auto* const held = static_cast<std::shared_ptr<Received>*>(context);
  if (!held || !alive()) return;
  std::shared_ptr<Received> received = std::move(*held);
  delete held;
  try {
    const cann::OwnQuestion own;
    release_later(pending_work(), std::move(received));
  } catch (const c10::Error& error) {  // the device was lost; nobody is there to take an exception
    TORCH_WARN_ONCE(error.what_without_backtrace());
  } catch (const std::exception& error) {  // no memory
    TORCH_WARN_ONCE("npu: shared memory was let go of before the work on it was known to be done: ", error.what());
  }
}

c10::DataPtr pointer_to(const std::shared_ptr<Sent>& sent) {
  return {sent->memory.get(), new std::shared_ptr<Sent>(sent), &free_sent, sent->memory.device()};
}

// A storage that another process sees cannot grow where it is: its memory ends where the owner's does.
c10::intrusive_ptr<c10::StorageImpl> fixed_storage(uint64_t bytes, c10::DataPtr data) {
  auto made = c10::make_intrusive<torch_npu::NPUStorageImpl>(c10::StorageImpl::use_byte_size_t(), bytes,
                                                             std::move(data), device_allocator(), false);
  made->describe_as_bytes();
  return made;
}

std::shared_ptr<Sent> sent_of(const c10::Storage& storage) {
  c10::StorageImpl* impl = storage.unsafeGetStorageImpl();
  State& s = state();
  const std::lock_guard<std::mutex> first(s.first);
  const c10::DataPtr& data = impl->data_ptr();
  if (data.get_deleter() == &free_sent) return *static_cast<std::shared_ptr<Sent>*>(data.get_context());
  auto sent = std::make_shared<Sent>();
  const Region region = region_of(data, impl->nbytes());
  sent->place.region = export_region(region);
  sent->place.offset = static_cast<uint64_t>(static_cast<char*>(data.get()) - region.base);
  sent->place.bytes = impl->nbytes();
  sent->place.device = data.device().index();
  sent->storage = storage.getWeakStorageImpl();
  sent->place.storage = s.next_storage++;
  c10::DataPtr wrapped(data.get(), new std::shared_ptr<Sent>(sent), &free_sent, data.device());
  sent->memory = impl->set_data_ptr(std::move(wrapped));
  return sent;
}

// --- messages -------------------------------------------------------------------------------------------------------------

constexpr uint64_t kVersion = 0x316e7561'6e79636e;

void put(std::string& out, const void* from, size_t bytes) { out.append(static_cast<const char*>(from), bytes); }
template <class T>
void put(std::string& out, const T& value) {
  static_assert(std::is_trivially_copyable_v<T>);
  put(out, &value, sizeof value);
}

class Reader {
 public:
  explicit Reader(std::string_view text) : text_(text) {}
  void take(void* to, size_t bytes) {
    TORCH_CHECK_VALUE(bytes <= text_.size(), "npu: this is not a message about a shared tensor");
    std::memcpy(to, text_.data(), bytes);
    text_.remove_prefix(bytes);
  }
  template <class T>
  T take() {
    T value;
    take(&value, sizeof value);
    return value;
  }
  size_t left() const { return text_.size(); }

 private:
  std::string_view text_;
};

struct Message {
  SharedTicket origin;   // in the owner's table: held by whoever has the tensor
  SharedTicket arrival;  // in the sender's table: on its way until it is received
  Place place;

  std::string text() const {
    std::string out;
    put(out, kVersion);
    put(out, origin);
    put(out, arrival);
    put(out, place.offset);
    put(out, place.bytes);
    put(out, place.storage);
    put(out, place.device);
    put(out, place.region.bytes);
    put(out, uint32_t(place.region.pieces.size()));
    for (const uint64_t piece : place.region.pieces) put(out, piece);
    put(out, place.region.key.data(), place.region.key.size());
    return out;
  }

  explicit Message(std::string_view text) {
    Reader in(text);
    TORCH_CHECK_VALUE(in.take<uint64_t>() == kVersion, "npu: this is not a message about a shared tensor");
    origin = in.take<SharedTicket>();
    arrival = in.take<SharedTicket>();
    place.offset = in.take<uint64_t>();
    place.bytes = in.take<uint64_t>();
    place.storage = in.take<uint64_t>();
    place.device = in.take<int32_t>();
    place.region.bytes = in.take<uint64_t>();
    TORCH_CHECK_VALUE(place.bytes <= place.region.bytes && place.offset <= place.region.bytes - place.bytes,
                      "npu: this message's tensor does not lie in the memory that it names");
    const uint32_t pieces = in.take<uint32_t>();
    TORCH_CHECK_VALUE(pieces <= in.left() / sizeof(uint64_t), "npu: this is not a message about a shared tensor");
    for (uint32_t i = 0; i < pieces; ++i) place.region.pieces.push_back(in.take<uint64_t>());
    place.region.key.resize(in.left());
    in.take(place.region.key.data(), in.left());
  }
  Message(const SharedTicket& from, const SharedTicket& ticket, Place where)
      : origin(from), arrival(ticket), place(std::move(where)) {}
};

c10::Storage storage_in_owner(const Message& message) {
  State& s = state();
  std::shared_ptr<Sent> sent;
  {
    const std::lock_guard<std::mutex> lock(s.mutex);
    const auto found = s.outstanding.find(message.origin.slot);
    if (found != s.outstanding.end()) sent = found->second.sent.lock();
  }
  TORCH_CHECK(sent && sent->place.storage == message.place.storage,
              "npu: this message was received before, and the tensor was freed since: send the tensor once for each "
              "receiver");
  const auto storage = sent->storage.lock();
  const bool same =
      storage && storage->data_ptr().get_deleter() == &free_sent && storage->data_ptr().get() == sent->memory.get();
  mark_received(message.arrival);
  if (same) return c10::Storage(storage);
  auto again = fixed_storage(sent->place.bytes, pointer_to(sent));
  sent->storage = WeakStorage(again);
  return c10::Storage(std::move(again));
}

struct Arrival {
  const SharedTicket& ticket;
  ~Arrival() { mark_received(ticket); }  // also when it cannot be used: nobody else will receive it
};

c10::Storage storage_elsewhere(const Message& message, c10::DeviceIndex reader) {
  State& s = state();
  const std::tuple<uint64_t, uint64_t, c10::DeviceIndex> name{message.origin.table, message.place.storage, reader};
  const Arrival arrival{message.arrival};
  {
    const std::lock_guard<std::mutex> lock(s.mutex);
    const auto known = s.received.find(name);
    if (known != s.received.end()) {
      if (auto storage = known->second.lock()) return c10::Storage(std::move(storage));
    }
  }
  auto received = std::make_shared<Received>();
  auto hold = std::make_unique<SharedHold>(message.origin);
  received->import =
      SharedImport::of(message.place.region, static_cast<c10::DeviceIndex>(message.place.device), reader);
  received->hold = std::move(hold);
  received->place = message.place;
  received->origin = message.origin;
  char* const at = received->import->base() + message.place.offset;
  const c10::Device device(c10::DeviceType::PrivateUse1, received->import->device());
  auto storage = fixed_storage(message.place.bytes,
                               {at, new std::shared_ptr<Received>(std::move(received)), &free_received, device});
  const std::lock_guard<std::mutex> lock(s.mutex);
  if (s.received.size() > s.received_limit) {
    std::erase_if(s.received, [](const auto& row) { return row.second.expired(); });
    s.received_limit = std::max<size_t>(128, 2 * s.received.size());
  }
  s.received.insert_or_assign(name, WeakStorage(storage));
  return c10::Storage(std::move(storage));
}

}  // namespace

std::string share_storage(const c10::Storage& storage, int64_t channel) {
  initialize();
  TORCH_CHECK_VALUE(storage.device_type() == c10::DeviceType::PrivateUse1 && storage.nbytes() > 0,
                    "npu: expected a storage of an npu device with memory, got ", storage.nbytes(), " bytes of ",
                    storage.device());
  wait_until_done(pending_work());
  const NPUGuard guard(storage.device().index());
  ensure_context();
  Kept dropped;  // before the lock: freed after it
  State& s = state();
  const c10::DataPtr& data = storage.data_ptr();
  Outstanding entry;
  entry.channel = channel;
  SharedTicket origin;
  Place place;
  std::shared_ptr<Sent> sent;
  if (data.get_deleter() == &free_received) {
    const auto received = *static_cast<std::shared_ptr<Received>*>(data.get_context());
    origin = received->origin;
    place = received->place;
    entry.kept = received;
  } else {
    sent = sent_of(storage);
    place = sent->place;
    entry.kept = sent;
    entry.sent = sent;
  }
  const std::lock_guard<std::mutex> lock(s.mutex);
  retire_some(s, 2, dropped);
  const SharedTicket ticket = issue_ticket();
  if (sent) {
    origin = ticket;
    sent->slots.push_back(ticket.slot);
  }
  s.outstanding.insert_or_assign(ticket.slot, std::move(entry));
  s.order.push_back(ticket.slot);
  return Message(origin, ticket, std::move(place)).text();
}

c10::Storage receive_storage(std::string_view text, c10::DeviceIndex device) {
  initialize();
  const Message message(text);
  if (device == message.place.device) device = -1;
  TORCH_CHECK_VALUE(device < device_count(), "npu: a shared tensor is asked for on npu:", int(device),
                    ", but this process sees ", int(device_count()), " npu devices");
  if (!is_own(message.origin)) return storage_elsewhere(message, device);
  TORCH_CHECK_VALUE(device < 0, "npu: a shared tensor is asked for on npu:", int(device),
                    " in the process that has it on npu:", message.place.device, ": copy it with .to()");
  return storage_in_owner(message);
}

c10::DeviceIndex sent_device(std::string_view text) {
  return static_cast<c10::DeviceIndex>(Message(text).place.device);
}

bool collect_shared() noexcept {
  if (!alive()) return false;
  Kept dropped;
  State& s = state();
  {
    const std::lock_guard<std::mutex> lock(s.mutex);
    if (!s.order.empty()) retire_some(s, s.order.size(), dropped);
  }
  close_idle_tables();
  // The last one that kept a storage's memory gives it to the allocator when it is dropped.
  return std::any_of(dropped.begin(), dropped.end(), [](const auto& kept) { return kept.use_count() == 1; });
}

std::vector<std::pair<uint32_t, int64_t>> waiting_messages() {
  std::vector<std::pair<uint32_t, int64_t>> waiting;
  if (!alive()) return waiting;
  State& s = state();
  const std::lock_guard<std::mutex> lock(s.mutex);
  for (const auto& [slot, entry] : s.outstanding) {
    if (is_on_its_way(slot)) waiting.emplace_back(slot, entry.channel);
  }
  return waiting;
}

void give_up_messages(const std::vector<uint32_t>& slots) {
  State& s = state();
  const std::lock_guard<std::mutex> lock(s.mutex);
  for (const uint32_t slot : slots) {
    if (s.outstanding.contains(slot)) give_up(slot);
  }
}

size_t outstanding_messages() noexcept {
  if (!alive()) return 0;
  State& s = state();
  const std::lock_guard<std::mutex> lock(s.mutex);
  return s.outstanding.size();
}

const c10::DataPtr* shared_memory(const c10::DataPtr& data) noexcept {
  if (data.get_deleter() != &free_sent) return nullptr;
  return &(*static_cast<std::shared_ptr<Sent>*>(data.get_context()))->memory;
}

}  // namespace npu
