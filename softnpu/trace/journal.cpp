#include "softnpu/trace/journal.h"

#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <utility>

namespace softnpu::mspti {
namespace {

using trace::Kind;

// A kind's bit; 0 for what has no records here. The software NPU's own comes after CANN's.
uint64_t bit(msptiActivityKind kind) noexcept { return size_of(kind) ? uint64_t{1} << (unsigned(kind) & 63) : 0; }
static_assert((SOFTNPU_ACTIVITY_KIND_TENSORS & 63) == 0);

uint32_t thread_id() noexcept {
  static thread_local const uint32_t id = uint32_t(syscall(SYS_gettid));
  return id;
}

msptiActivityMemcpyKind copy_kind(int kind) noexcept {
  switch (kind) {
    case ACL_MEMCPY_HOST_TO_HOST:
      return MSPTI_ACTIVITY_MEMCPY_KIND_HOST;
    case ACL_MEMCPY_HOST_TO_DEVICE:
      return MSPTI_ACTIVITY_MEMCPY_KIND_HTOD;
    case ACL_MEMCPY_DEVICE_TO_HOST:
      return MSPTI_ACTIVITY_MEMCPY_KIND_DTOH;
    case ACL_MEMCPY_DEVICE_TO_DEVICE:
      return MSPTI_ACTIVITY_MEMCPY_KIND_DTOD;
    default:
      return MSPTI_ACTIVITY_MEMCPY_KIND_UNKNOWN;
  }
}

void add_kernel(Journal& j, const trace::Record& r) noexcept {
  if (j.enabled(MSPTI_ACTIVITY_KIND_KERNEL))
    j.add(msptiActivityKernel{MSPTI_ACTIVITY_KIND_KERNEL,
                              uint64_t(r.began),
                              uint64_t(r.ended),
                              {uint32_t(r.device), uint32_t(r.stream)},
                              r.correlation,
                              "KERNEL_AICORE",
                              r.name});
  if (!j.enabled(SOFTNPU_ACTIVITY_KIND_TENSORS)) return;
  auto text = [](const std::string& s) { return trace::interned(s.c_str()); };
  j.add(softnpuActivityTensors{SOFTNPU_ACTIVITY_KIND_TENSORS, r.task, r.correlation, text(r.what.in.shapes),
                               text(r.what.in.types), text(r.what.in.formats), text(r.what.out.shapes),
                               text(r.what.out.types), text(r.what.out.formats)});
}

void add_collective(Journal& j, const trace::Record& r) noexcept {
  if (j.enabled(MSPTI_ACTIVITY_KIND_COMMUNICATION))
    j.add(msptiActivityCommunication{MSPTI_ACTIVITY_KIND_COMMUNICATION,
                                     r.what.detail,
                                     r.what.count,
                                     {uint32_t(r.device), uint32_t(r.stream)},
                                     uint64_t(r.began),
                                     uint64_t(r.ended),
                                     "",
                                     r.name,
                                     r.what.group,
                                     r.correlation});
  if (!j.enabled(MSPTI_ACTIVITY_KIND_HCCL)) return;
  const int64_t took = std::max<int64_t>(1, r.ended - r.began);
  j.add(msptiActivityHccl{MSPTI_ACTIVITY_KIND_HCCL,
                          uint64_t(r.began),
                          uint64_t(r.ended),
                          {uint32_t(r.device), uint32_t(r.stream)},
                          double(r.what.bytes) / double(took),
                          r.name,
                          r.what.group});
}

void ran(const trace::Record& r) noexcept {
  Journal& j = Journal::get();
  switch (r.what.kind) {
    case Kind::kKernel:
      return add_kernel(j, r);
    case Kind::kCollective:
      return add_collective(j, r);
    case Kind::kCopy:
      if (j.enabled(MSPTI_ACTIVITY_KIND_MEMCPY))
        j.add(msptiActivityMemcpy{MSPTI_ACTIVITY_KIND_MEMCPY, copy_kind(r.what.detail), r.what.bytes, uint64_t(r.began),
                                  uint64_t(r.ended), uint32_t(r.device), uint32_t(r.stream), r.correlation,
                                  r.asynchronous});
      return;
    case Kind::kFill:
      if (j.enabled(MSPTI_ACTIVITY_KIND_MEMSET))
        j.add(msptiActivityMemset{MSPTI_ACTIVITY_KIND_MEMSET, uint32_t(r.what.detail), r.what.bytes, uint64_t(r.began),
                                  uint64_t(r.ended), uint32_t(r.device), uint32_t(r.stream), r.correlation,
                                  r.asynchronous});
      return;
    case Kind::kOther:
      return;
  }
}

void called(const trace::Call& c) noexcept {
  Journal& j = Journal::get();
  const auto kind = c.kind == Kind::kKernel ? MSPTI_ACTIVITY_KIND_API : MSPTI_ACTIVITY_KIND_ACL_API;
  if (j.enabled(kind))
    j.add(msptiActivityApi{
        kind, uint64_t(c.began), uint64_t(c.ended), {uint32_t(getpid()), thread_id()}, c.correlation, c.name});
  if (j.enabled(MSPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION) && c.kind != Kind::kOther) {
    const Outer& mine = outer();
    for (int k = 0; k < MSPTI_EXTERNAL_CORRELATION_KIND_SIZE; ++k)
      if (!mine.ids[k].empty())
        j.add(msptiActivityExternalCorrelation{MSPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION,
                                               msptiExternalCorrelationKind(k), mine.ids[k].back(), c.correlation});
  }
  if (c.asynchronous) j.relieve();
}

void marked(const trace::Mark& m) noexcept {
  Journal& j = Journal::get();
  if (!j.enabled(MSPTI_ACTIVITY_KIND_MARKER)) return;
  msptiActivityMarker record{};
  record.kind = MSPTI_ACTIVITY_KIND_MARKER;
  record.flag = msptiActivityFlag(1 << (unsigned(m.point) + (m.on_stream ? 3 : 0)));
  record.timestamp = uint64_t(m.at);
  record.id = m.id;
  record.name = j.kept(m.name);
  record.domain = m.domain;
  if (m.device < 0) {
    record.sourceKind = MSPTI_ACTIVITY_SOURCE_KIND_HOST;
    record.objectId.pt = {uint32_t(getpid()), m.thread};
  } else {
    record.sourceKind = MSPTI_ACTIVITY_SOURCE_KIND_DEVICE;
    record.objectId.ds = {uint32_t(m.device), uint32_t(m.stream)};
  }
  j.add(record);
}

constexpr trace::Listener kListener{called, ran, marked};

}  // namespace

size_t size_of(msptiActivityKind kind) noexcept {
  switch (int(kind)) {
    case MSPTI_ACTIVITY_KIND_MARKER:
      return sizeof(msptiActivityMarker);
    case MSPTI_ACTIVITY_KIND_KERNEL:
      return sizeof(msptiActivityKernel);
    case MSPTI_ACTIVITY_KIND_API:
    case MSPTI_ACTIVITY_KIND_ACL_API:
      return sizeof(msptiActivityApi);
    case MSPTI_ACTIVITY_KIND_HCCL:
      return sizeof(msptiActivityHccl);
    case MSPTI_ACTIVITY_KIND_MEMSET:
      return sizeof(msptiActivityMemset);
    case MSPTI_ACTIVITY_KIND_MEMCPY:
      return sizeof(msptiActivityMemcpy);
    case MSPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION:
      return sizeof(msptiActivityExternalCorrelation);
    case MSPTI_ACTIVITY_KIND_COMMUNICATION:
      return sizeof(msptiActivityCommunication);
    case SOFTNPU_ACTIVITY_KIND_TENSORS:
      return sizeof(softnpuActivityTensors);
    default:
      return 0;
  }
}

Outer& outer() noexcept {
  static thread_local Outer mine;
  return mine;
}

Journal& Journal::get() {
  static Journal& the = *new Journal;
  return the;
}

bool Journal::subscribe() noexcept {
  if (subscribed_.exchange(true)) return false;
  std::lock_guard lock(mutex_);
  before_.swap(texts_);
  texts_.clear();
  return true;
}

const char* Journal::kept(const char* text) noexcept {
  if (text == nullptr) return nullptr;
  try {
    std::lock_guard lock(mutex_);
    return texts_.emplace(text).first->c_str();  // nodes of the set stay where they are
  } catch (...) {
    return "";
  }
}

bool Journal::unsubscribe() noexcept {
  std::lock_guard flushing(flushing_);
  std::lock_guard lock(mutex_);
  if (!subscribed_.load()) return false;
  if (kinds_.exchange(0) != 0) trace::ignore(&kListener);
  std::vector<uint8_t>().swap(records_);
  waiting_.store(0, std::memory_order_relaxed);
  lost_ = false;
  request_ = nullptr;
  complete_ = nullptr;
  subscribed_.store(false);
  return true;
}

void Journal::set_buffers(msptiBuffersCallbackRequestFunc request, msptiBuffersCallbackCompleteFunc complete) noexcept {
  std::lock_guard lock(mutex_);
  request_ = request;
  complete_ = complete;
}

bool Journal::enabled(msptiActivityKind kind) const noexcept {
  return kinds_.load(std::memory_order_relaxed) & bit(kind);
}

Enabled Journal::enable(msptiActivityKind kind, bool on) noexcept {
  const uint64_t its = bit(kind);
  if (its == 0) return Enabled::kUnknown;
  std::lock_guard lock(mutex_);
  if (on && !subscribed_.load()) return Enabled::kNobody;
  const uint64_t before = kinds_.load(), after = on ? before | its : before & ~its;
  if (before == 0 && after != 0 && !trace::listen(&kListener)) return Enabled::kTooMany;
  kinds_.store(after);
  if (before != 0 && after == 0) trace::ignore(&kListener);
  return Enabled::kDone;
}

void Journal::append(const void* record, size_t bytes) noexcept {
  const auto* at = static_cast<const uint8_t*>(record);
  std::lock_guard lock(mutex_);
  try {
    if (request_ == nullptr && records_.size() >= kMuch) {  // nobody may ever ask for them
      lost_ = true;
    } else {
      records_.insert(records_.end(), at, at + bytes);
    }
  } catch (...) {  // no memory
    lost_ = true;
  }
  waiting_.store(records_.size(), std::memory_order_relaxed);
}

Flushed Journal::give() noexcept {
  std::vector<uint8_t> records;
  msptiBuffersCallbackRequestFunc request;
  msptiBuffersCallbackCompleteFunc complete;
  {
    std::lock_guard lock(mutex_);
    request = request_;
    complete = complete_;
    if (request == nullptr) return records_.empty() ? Flushed::kDone : Flushed::kNoCallbacks;
    records.swap(records_);
    waiting_.store(0, std::memory_order_relaxed);
  }
  for (size_t done = 0; done < records.size();) {
    uint8_t* buffer = nullptr;
    size_t size = 0, most = 0;
    request(&buffer, &size, &most);
    if (buffer == nullptr) return Flushed::kLost;
    size_t used = 0, count = 0;
    while (done + used < records.size() && (most == 0 || count < most)) {
      msptiActivityKind kind;
      memcpy(&kind, &records[done + used], sizeof kind);
      if (used + size_of(kind) > size) break;
      used += size_of(kind);
      ++count;
    }
    memcpy(buffer, &records[done], used);
    complete(buffer, size, used);
    if (used == 0) return Flushed::kLost;  // there is not room for one
    done += used;
  }
  return Flushed::kDone;
}

Flushed Journal::flush() noexcept {
  std::lock_guard flushing(flushing_);
  const Flushed given = give();
  if (given == Flushed::kNoCallbacks) return given;
  std::lock_guard lock(mutex_);
  return std::exchange(lost_, false) ? Flushed::kLost : given;
}

void Journal::relieve() noexcept {
  static thread_local bool inside = false;  // the subscriber's functions may call the NPU
  if (inside || waiting_.load(std::memory_order_relaxed) < kMuch) return;
  inside = true;
  {
    std::lock_guard flushing(flushing_);
    if (give() == Flushed::kLost) {
      std::lock_guard lock(mutex_);
      lost_ = true;
    }
  }
  inside = false;
}

}  // namespace softnpu::mspti
