// See communicator.h.
#include "csrc/distributed/communicator.h"

#include <algorithm>
#include <cstring>

#include "csrc/cann/api.h"
#include "csrc/cann/error.h"
#include "csrc/distributed/check.h"
#include "csrc/distributed/settings.h"

namespace npu::distributed {
namespace {

// As HcclCommConfigInit, which is an inline function of the vendor's header: every field "not set", and a head that says so.
HcclCommConfig make_config(const std::string& name, std::chrono::milliseconds timeout) {
  HcclCommConfig config{};
  struct {
    uint64_t size = sizeof(HcclCommConfig);
    uint32_t magic = HCCL_COMM_CONFIG_MAGIC_WORD, version = HCCL_COMM_CONFIG_VERSION;
    uint64_t reserved = 0;
  } head;
  static_assert(sizeof head == sizeof config.reserved);
  std::memcpy(config.reserved, &head, sizeof head);
  config.hcclBufferSize = HCCL_COMM_BUFFSIZE_CONFIG_NOT_SET;
  config.hcclDeterministic = HCCL_COMM_DETERMINISTIC_CONFIG_NOT_SET;
  config.hcclOpExpansionMode = HCCL_COMM_DEFAULT_OP_EXPANSION_MODE;
  config.hcclRdmaTrafficClass = HCCL_COMM_TRAFFIC_CLASS_CONFIG_NOT_SET;
  config.hcclRdmaServiceLevel = HCCL_COMM_SERVICE_LEVEL_CONFIG_NOT_SET;
  config.hcclQos = HCCL_COMM_QOS_CONFIG_NOT_SET;
  std::strncpy(config.hcclCommName, name.c_str(), sizeof config.hcclCommName - 1);
  // The group's timeout is the collective's: the library names the missing ranks, which a watchdog up here cannot.
  if (const auto own = settings().exec_timeout; own.count() > 0) timeout = std::min(timeout, own);
  const auto seconds = std::chrono::ceil<std::chrono::seconds>(timeout).count();
  config.hcclExecTimeOut = static_cast<int32_t>(std::clamp<int64_t>(seconds, 1, INT32_MAX));
  return config;
}

}  // namespace

Communicator::Communicator(c10d::Store& store, const std::string& key, int rank, int size, const std::string& name,
                           std::chrono::milliseconds timeout) {
  const auto& api = cann::hccl();
  HcclRootInfo info;
  if (rank == 0) {
    HCCL_CHECK(api.HcclGetRootInfo(&info));
    const auto* bytes = reinterpret_cast<const uint8_t*>(&info);
    store.set(key, std::vector<uint8_t>(bytes, bytes + sizeof info));
  } else {
    const std::vector<uint8_t> bytes = store.get(key);
    TORCH_CHECK(bytes.size() == sizeof info, "ProcessGroupHCCL: the store holds ", bytes.size(), " bytes under ", key,
                ", not a root info");
    std::memcpy(&info, bytes.data(), sizeof info);
  }
  const HcclCommConfig config = make_config(name, timeout);
  HCCL_CHECK(api.HcclCommInitRootInfoConfig(static_cast<uint32_t>(size), &info, static_cast<uint32_t>(rank), &config,
                                            &handle_));
}

Communicator::~Communicator() {
  if (handle_) cann::hccl().HcclCommDestroy(handle_);
}

std::optional<std::string> Communicator::async_error() const {
  HcclResult result = HCCL_SUCCESS;
  if (cann::hccl().HcclGetCommAsyncError(handle_, &result) != HCCL_SUCCESS || result == HCCL_SUCCESS) return {};
  return std::string(cann::recent_message());
}

}  // namespace npu::distributed
