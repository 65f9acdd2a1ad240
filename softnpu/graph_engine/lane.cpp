// See lane.h.
#include "softnpu/graph_engine/lane.h"

#include "acl/api.h"
#include "softnpu/graph_engine/error.h"

namespace softnpu::graph {
namespace {

struct Lent final : Block {
  Lent(ge::MemBlock* block, size_t bytes, std::shared_ptr<ge::Allocator> allocator)
      : Block(block->address(), bytes), block(block), allocator(std::move(allocator)) {}
  ~Lent() override { block->release(); }
  ge::MemBlock* block;
  std::shared_ptr<ge::Allocator> allocator;  // outlives its blocks
};

// The runtime frees at once, so this is kept until the stream has passed.
struct Own final : Block {
  using Block::Block;
  ~Own() override { aclrtFree(address); }
};

}  // namespace

void check(int status, const char* function) {
  if (!status) return;
  const char* text = aclGetRecentErrMsg();
  throw Error(std::string(function) + " returned " + std::to_string(status) + (text && *text ? ": " : "") +
              (text ? text : ""));
}

Keeper::~Keeper() {
  for (Kept& kept : kept_) {
    aclrtSynchronizeEvent(kept.passed);
    aclrtDestroyEvent(kept.passed);
  }
}

void Keeper::keep(aclrtStream stream, std::vector<std::shared_ptr<const void>> things) {
  std::erase_if(kept_, [](Kept& kept) {
    aclrtEventRecordedStatus status = ACL_EVENT_RECORDED_STATUS_NOT_READY;
    if (aclrtQueryEventStatus(kept.passed, &status) || status != ACL_EVENT_RECORDED_STATUS_COMPLETE) return false;
    aclrtDestroyEvent(kept.passed);
    return true;
  });
  if (things.empty()) return;
  aclrtEvent passed = nullptr;
  if (aclrtCreateEvent(&passed) || aclrtRecordEvent(passed, stream)) {
    aclrtSynchronizeStream(stream);
    if (passed) aclrtDestroyEvent(passed);
    return;
  }
  kept_.push_back({passed, std::move(things)});
}

// An error of the stream's tasks stays the stream's.
Lane::~Lane() {
  if (allocator_)
    keeper_.keep(stream_, std::move(kept_));
  else
    aclrtSynchronizeStream(stream_);
}

std::shared_ptr<Block> Lane::allocate(size_t bytes) {
  const size_t wanted = bytes ? bytes : 1;
  if (allocator_) {
    ge::MemBlock* block = allocator_->Malloc(wanted);
    if (!block) throw Error("the client's allocator has no " + std::to_string(wanted) + " bytes");
    return std::make_shared<Lent>(block, wanted, allocator_);
  }
  void* address = nullptr;
  check(aclrtMalloc(&address, wanted, ACL_MEM_MALLOC_HUGE_FIRST), "aclrtMalloc");
  auto block = std::make_shared<Own>(address, wanted);
  keep(block);
  return block;
}

void* Lane::address(const Value& value) {
  Storage& storage = *value.storage;
  if (!storage.device) {
    const std::string& host = *storage.host;
    if (storage.constant) {  // once, for all runs on any stream
      void* address = nullptr;
      check(aclrtMalloc(&address, host.size() ? host.size() : 1, ACL_MEM_MALLOC_HUGE_FIRST), "aclrtMalloc");
      auto block = std::make_shared<Own>(address, host.size());
      if (!host.empty())
        check(aclrtMemcpy(address, host.size(), host.data(), host.size(), ACL_MEMCPY_HOST_TO_DEVICE), "aclrtMemcpy");
      storage.device = std::move(block);
    } else {
      auto block = allocate(host.size());
      if (!host.empty()) {
        keep(storage.host);
        check(
            aclrtMemcpyAsync(block->address, host.size(), host.data(), host.size(), ACL_MEMCPY_HOST_TO_DEVICE, stream_),
            "aclrtMemcpyAsync");
      }
      storage.device = std::move(block);
    }
  }
  return storage.device->address;
}

const std::string& Lane::bytes(const Value& value) {
  Storage& storage = *value.storage;
  if (!storage.host) {
    auto host = std::make_shared<std::string>(storage.device->bytes, '\0');
    check(aclrtSynchronizeStream(stream_), "aclrtSynchronizeStream");
    if (!host->empty())
      check(aclrtMemcpy(host->data(), host->size(), storage.device->address, host->size(), ACL_MEMCPY_DEVICE_TO_HOST),
            "aclrtMemcpy");
    storage.host = std::move(host);
  }
  return *storage.host;
}

}  // namespace softnpu::graph
