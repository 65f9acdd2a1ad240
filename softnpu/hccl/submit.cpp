// See submit.h.
#include "softnpu/hccl/submit.h"

#include <cstring>
#include <mutex>
#include <optional>
#include <shared_mutex>
#include <unordered_map>
#include <variant>

#include "acl/api.h"
#include "softnpu/hccl/datatype.h"
#include "softnpu/hccl/operation.h"
#include "softnpu/hccl/reduce.h"
#include "softnpu/hccl/status.h"
#include "softnpu/race/meeting.h"
#include "softnpu/runtime/extent.h"
#include "softnpu/runtime/trace.h"

namespace softnpu::hccl {
namespace {

struct Handles {
  std::shared_mutex mutex;
  std::unordered_map<uintptr_t, CommunicatorPtr> all;
  uintptr_t next = 0x4843'0000'0010;  // recognizable in a debugger, and no address
};
Handles& handles() {
  static Handles* const the = new Handles;
  return *the;
}

struct Batch {
  std::vector<Transfer> transfers;
  std::vector<uint32_t> numbers;
};

// What a stream holds, or a graph: that one is not run but copied at each replay, and the copy is queued as if it had been called
// then. So the order of the calls is always that of their queueing.
struct Work {
  CommunicatorPtr communicator;
  const char* name;
  std::variant<Call, Batch> what;
  EpochPtr epoch = nullptr;  // set when it is queued, and the call counts as unfinished from then on
  uint64_t ticket = 0;       // of a Call
  bool ran = false;
};

// The status that the stream keeps; the vendor's runtime reports a dead peer and a collective that ran out of time so.
int stream_status(HcclResult code) {
  switch (code) {
    case HCCL_E_REMOTE:
      return ACL_ERROR_RT_SUSPECT_REMOTE_ERROR;
    case HCCL_E_TIMEOUT:
      return ACL_ERROR_RT_FFTS_PLUS_TIMEOUT;
    case HCCL_E_MEMORY:
      return ACL_ERROR_RT_MEMORY_ALLOCATION;
    case HCCL_E_PARA:
      return ACL_ERROR_RT_PARAM_INVALID;
    default:
      return ACL_ERROR_RT_INTERNAL_ERROR;
  }
}

int run(void* state) noexcept {
  Work& work = *static_cast<Work*>(state);
  Communicator& c = *work.communicator;
  work.ran = true;
  const HcclResult result = caught(work.name, [&] {
    std::optional<OwnTurn> turn;  // left after the error is known: the next one must see it
    try {
      if (const Call* call = std::get_if<Call>(&work.what)) {
        turn.emplace(c, *work.epoch, work.name, work.ticket).enter();
        c.execute(*call, *work.epoch);
      } else {
        const Batch& batch = std::get<Batch>(work.what);
        c.exchange(batch.transfers, batch.numbers, *work.epoch);
      }
    } catch (Error& error) {
      c.abort(*work.epoch, error.code, error.text);
      if (const std::string ranks = c.settle(*work.epoch); !ranks.empty())
        error.text += "; rank " + ranks + " stands still in a collective and may still write into its buffers";
      throw;
    }
  });
  return result == HCCL_SUCCESS ? 0 : stream_status(result);
}

// For the record of a task: messages are counted in bytes where they have several types.
void describe(const void* state, trace::Description& what) {
  const Work& work = *static_cast<const Work*>(state);
  what.kind = trace::Kind::kCollective;
  what.group = trace::interned(work.communicator->options().name.c_str());
  what.rank = int(work.communicator->rank());
  what.ranks = int(work.communicator->size());
  what.detail = HCCL_DATA_TYPE_INT8;
  if (const Call* call = std::get_if<Call>(&work.what)) {
    what.detail = call->type;
    what.count = call->count ? call->count : std::max(call->send_bytes, call->recv_bytes) / element_size(call->type);
    what.bytes = std::max(call->send_bytes, call->recv_bytes);
    return;
  }
  for (const Transfer& t : std::get<Batch>(work.what).transfers) what.bytes += t.bytes;
  what.count = what.bytes;
}

// The same in all ranks of an epoch, and of nobody else.
uint64_t group_number(const Epoch& epoch) {
  uint64_t halves[2];
  static_assert(sizeof halves == sizeof epoch.key);
  memcpy(halves, epoch.key.data(), sizeof halves);
  return halves[0] ^ halves[1];
}
uint64_t pair_number(uint32_t from, uint32_t to) { return (uint64_t{from} << 32 | to) * 0x9e37'79b9'7f4a'7c15 + 1; }

// This rank's own buffers. The others reach them only while all take part, which is this task's time.
void tell(const void* state, race::Accesses& accesses) {
  const Work& work = *static_cast<const Work*>(state);
  const Communicator& c = *work.communicator;
  const uint64_t group = work.epoch ? group_number(*work.epoch) : 0;
  if (const Call* call = std::get_if<Call>(&work.what)) {
    race::meets({group, c.rank(), c.size()});
    race::Access::add(accesses, call->send, call->send_bytes, false);
    if (call->recv != call->send || call->kind != HCCL_CMD_BROADCAST)  // the root of a broadcast only reads
      race::Access::add(accesses, call->recv, call->recv_bytes, true);
    return;
  }
  for (const Transfer& t : std::get<Batch>(work.what).transfers) {
    race::Access::add(accesses, t.buffer, t.bytes, !t.send);
    const uint32_t from = t.send ? c.rank() : t.peer, to = t.send ? t.peer : c.rank();
    if (from != to) race::meets({group ^ pair_number(from, to), t.send ? 0u : 1u, 2});
  }
}
const bool described = trace::describe(run, describe) && race::tells(run, tell);

thread_local const void* being_queued = nullptr;

void drop(void* state) noexcept {
  std::unique_ptr<Work> work(static_cast<Work*>(state));
  if (!work->epoch) return;  // a graph's
  Communicator& c = *work->communicator;
  if (!work->ran) {
    // A collective that its stream refused was never called. For any other the peers would wait in vain, and a message has its number.
    const bool refused = being_queued == state && std::holds_alternative<Call>(work->what);
    if (!refused)
      c.abort(
          *work->epoch, HCCL_E_INTERNAL,
          std::string(work->name) + " was dropped with its stream before it ran, on rank " + std::to_string(c.rank()));
    if (std::holds_alternative<Call>(work->what)) work->epoch->turnstile.leave(work->ticket);
  }
  c.end();
}

bool captured(aclrtStream stream) {
  aclmdlRICaptureStatus status = ACL_MODEL_RI_CAPTURE_STATUS_NONE;
  aclmdlRI graph = nullptr;
  return aclmdlRICaptureGetInfo(stream, &status, &graph) == ACL_SUCCESS && status == ACL_MODEL_RI_CAPTURE_STATUS_ACTIVE;
}

// As if `state` had been called now.
int again(void* state, aclrtStream stream) noexcept;

void queue(std::unique_ptr<Work> work, aclrtStream stream) {
  Communicator& c = *work->communicator;
  if (captured(stream)) {
    const char* name = work->name;
    if (const int status = record(stream, again, work.release(), drop, name))
      fail(HCCL_E_RUNTIME, "the graph did not take the task (status %d)", status);
    return;
  }
  const CommunicatorPtr keep = work->communicator;
  // The order of tickets must be the order in the streams: nobody else may queue between the two. First the stream: a replay
  // holds it already.
  const StreamHold hold(stream);
  if (hold.code()) fail(HCCL_E_RUNTIME, "the stream did not take the task (status %d)", hold.code());
  c.begin();
  std::lock_guard order(c.submit_mutex());
  work->epoch = c.epoch();
  if (Batch* batch = std::get_if<Batch>(&work->what))
    batch->numbers = work->epoch->take_numbers(batch->transfers);
  else
    work->ticket = work->epoch->turnstile.take(work->name);
  const Task task{run, drop, work.get(), work->name, Cost::kBlocking};
  being_queued = work.release();  // enqueue drops it, also when it fails
  const int status = enqueue(stream, task);
  being_queued = nullptr;
  if (status) fail(HCCL_E_RUNTIME, "the stream did not take the task (status %d)", status);
}

int again(void* state, aclrtStream stream) noexcept {
  const Work& work = *static_cast<const Work*>(state);
  const HcclResult result = caught(work.name, [&] {
    if (work.communicator->aborted()) throw work.communicator->error();
    queue(std::make_unique<Work>(Work{work.communicator, work.name, work.what}), stream);
  });
  return result == HCCL_SUCCESS ? 0 : stream_status(result);
}

struct Pending {
  std::unique_ptr<Work> work;
  aclrtStream stream;
};
thread_local int group_depth = 0;
thread_local std::vector<Pending>* group = nullptr;

void accept(std::unique_ptr<Work> work, aclrtStream stream) {
  if (work->communicator->aborted()) throw work->communicator->error();
  if (stream_device(stream) < 0) fail(HCCL_E_PARA, "the stream %p does not exist", stream);
  if (!group_depth) return queue(std::move(work), stream);
  // Messages of one communicator and stream go forward together.
  if (Batch* batch = std::get_if<Batch>(&work->what))
    for (Pending& p : *group)
      if (Batch* earlier = std::get_if<Batch>(&p.work->what);
          earlier && p.stream == stream && p.work->communicator == work->communicator) {
        earlier->transfers.insert(earlier->transfers.end(), batch->transfers.begin(), batch->transfers.end());
        return;
      }
  group->push_back({std::move(work), stream});
}

}  // namespace

HcclComm publish(CommunicatorPtr communicator) {
  Handles& h = handles();
  std::lock_guard lock(h.mutex);
  const uintptr_t handle = h.next += 16;
  h.all.emplace(handle, std::move(communicator));
  return reinterpret_cast<HcclComm>(handle);
}

CommunicatorPtr lookup(HcclComm handle) {
  Handles& h = handles();
  std::shared_lock lock(h.mutex);
  const auto found = h.all.find(reinterpret_cast<uintptr_t>(handle));
  if (found == h.all.end())
    fail(handle ? HCCL_E_PARA : HCCL_E_PTR, "the communicator %p does not exist or was destroyed", handle);
  return found->second;
}

std::pair<CommunicatorPtr, bool> lookup(HcclComm handle, uint32_t root) {
  CommunicatorPtr c = lookup(handle);
  require_root(*c, root, "root");
  const bool is_root = c->rank() == root;
  return {std::move(c), is_root};
}

CommunicatorPtr withdraw(HcclComm handle) {
  CommunicatorPtr communicator = lookup(handle);
  Handles& h = handles();
  std::lock_guard lock(h.mutex);
  if (!h.all.erase(reinterpret_cast<uintptr_t>(handle)))
    fail(HCCL_E_PARA, "the communicator %p was destroyed by another thread", handle);
  return communicator;
}

HcclComm find_named(const char* name, int device) {
  if (group_depth)
    fail(HCCL_E_NOT_SUPPORT,
         "an operator that holds a collective cannot stand between HcclGroupStart and HcclGroupEnd");
  Handles& h = handles();
  std::shared_lock lock(h.mutex);
  std::string others;
  for (const auto& [handle, c] : h.all) {
    const int32_t own = c->members()[c->rank()].device;
    if (c->options().name == name && own == device) return reinterpret_cast<HcclComm>(handle);
    others += (others.empty() ? "" : ", ") + ("'" + c->options().name + "' on device " + std::to_string(own));
  }
  fail(HCCL_E_PARA, "no communicator of this process is called '%s' on device %d; there are: %s", name, device,
       others.empty() ? "none" : others.c_str());
}

// ANYCEND_CHECK: what is not memory of the stream's device is refused.
static void require_memory(aclrtStream stream, const void* buffer, uint64_t bytes) {
  const int device = stream_device(stream);
  if (bytes && !check_pointer(buffer, bytes, device)) fail(HCCL_E_PTR, "a buffer is not memory of device %d", device);
}

void submit(HcclComm handle, aclrtStream stream, Call call) {
  CommunicatorPtr c = lookup(handle);
  require_buffer(call.send, call.send_bytes, "sendBuf");
  require_buffer(call.recv, call.recv_bytes, "recvBuf");
  if (checked_mode()) {
    require_memory(stream, call.send, call.send_bytes);
    require_memory(stream, call.recv, call.recv_bytes);
  }
  const char* name = call.name;
  accept(std::unique_ptr<Work>(new Work{std::move(c), name, std::move(call)}), stream);
}

void submit(HcclComm handle, aclrtStream stream, std::vector<Transfer> transfers, const char* name) {
  CommunicatorPtr c = lookup(handle);
  for (const Transfer& t : transfers) {
    require_root(*c, t.peer, "remote rank");
    require_buffer(t.buffer, t.bytes, t.send ? "sendBuf" : "recvBuf");
    if (checked_mode()) require_memory(stream, t.buffer, t.bytes);
  }
  accept(std::unique_ptr<Work>(new Work{std::move(c), name, Batch{std::move(transfers), {}}}), stream);
}

void group_start() {
  if (!group) group = new std::vector<Pending>;
  ++group_depth;
}

void group_end() {
  if (!group_depth) fail(HCCL_E_PARA, "there is no HcclGroupStart before it");
  if (--group_depth) return;
  std::vector<Pending> calls;
  calls.swap(*group);
  for (Pending& p : calls) queue(std::move(p.work), p.stream);
}

uint64_t bytes_of(uint64_t count, HcclDataType type, uint64_t times) {
  const size_t size = element_size(type);
  if (!size) fail(HCCL_E_NOT_SUPPORT, "%d is not an HcclDataType", static_cast<int>(type));
  uint64_t bytes;
  // No memory is that long, and sums of such offsets and sizes over all ranks do not wrap.
  constexpr uint64_t kMost = uint64_t{1} << 47;
  if (__builtin_mul_overflow(count, size * times, &bytes) || bytes > kMost)
    fail(HCCL_E_PARA, "a count of %llu is too large", static_cast<unsigned long long>(count));
  return bytes;
}

void require_buffer(const void* pointer, uint64_t bytes, const char* name) {
  if (!bytes) return;
  if (!pointer) fail(HCCL_E_PTR, "%s is null", name);
  if (const uint64_t there = device_bytes_from(pointer); bytes > there)
    fail(HCCL_E_PARA, "%s: the call takes %llu bytes at %p, where %llu bytes of device memory are allocated", name,
         static_cast<unsigned long long>(bytes), pointer, static_cast<unsigned long long>(there));
}

void require_root(const Communicator& c, uint32_t root, const char* name) {
  if (root >= c.size()) fail(HCCL_E_PARA, "%s %u does not exist among %u ranks", name, root, c.size());
}

void require_reducible(HcclDataType type, HcclReduceOp op) {
  if (!reduce_fn(type, op))
    fail(HCCL_E_NOT_SUPPORT, "%s of %s is not a reduction that HCCL has", op_name(op), type_name(type));
  if (!settings().strict) return;
  switch (type) {
    case HCCL_DATA_TYPE_INT8:
    case HCCL_DATA_TYPE_INT16:
    case HCCL_DATA_TYPE_INT32:
    case HCCL_DATA_TYPE_INT64:
    case HCCL_DATA_TYPE_FP16:
    case HCCL_DATA_TYPE_FP32:
    case HCCL_DATA_TYPE_BFP16:
      return;
    default:
      fail(HCCL_E_NOT_SUPPORT, "no Ascend device reduces %s (ANYCEND_STRICT)", type_name(type));
  }
}

}  // namespace softnpu::hccl
