// See communicator.h.
#include "csrc/distributed/communicator.h"

#include <algorithm>
#include <cstring>

#include "csrc/cann/api.h"
#include "csrc/cann/error.h"
#include "csrc/cann/root.h"
#include "csrc/distributed/check.h"
#include "csrc/distributed/initialization.h"
#include "csrc/distributed/late.h"
#include "csrc/distributed/settings.h"

namespace npu::distributed {
namespace {

// The group's timeout is the collective's: the library names the missing ranks, which a watchdog up here cannot.
std::chrono::milliseconds shortened(std::chrono::milliseconds timeout) {
  const auto own = settings().exec_timeout;
  return own.count() > 0 ? std::min(timeout, own) : timeout;
}

uint32_t number(const HcclSettings& settings, const char* name, uint32_t otherwise) {
  const auto found = settings.find(name);
  return found == settings.end() ? otherwise : static_cast<uint32_t>(std::get<int64_t>(found->second));
}

// How a network card and a chip go about it, and with how much memory: the software NPU has none of them.
void tell_what_has_no_effect(const HcclSettings& own) {
  if (!cann::root().soft) return;
  for (const char* name : {"hccl_buffer_size", "hccl_op_expansion_mode", "qos_service_level", "qos_traffic_class"})
    if (own.count(name)) TORCH_WARN("npu: hccl_config[\"", name, "\"] is set, but has no effect on the software NPU");
}

// As HcclCommConfigInit, which is an inline function of the vendor's header: every field "not set", and a head that says so.
HcclCommConfig make_config(const std::string& name, const GroupOptions& options) {
  HcclCommConfig config{};
  struct {
    uint64_t size = sizeof(HcclCommConfig);
    uint32_t magic = HCCL_COMM_CONFIG_MAGIC_WORD, version = HCCL_COMM_CONFIG_VERSION;
    uint64_t reserved = 0;
  } head;
  static_assert(sizeof head == sizeof config.reserved);
  std::memcpy(config.reserved, &head, sizeof head);
  const HcclSettings& own = options.hccl_config;
  tell_what_has_no_effect(own);
  config.hcclBufferSize = number(own, "hccl_buffer_size", HCCL_COMM_BUFFSIZE_CONFIG_NOT_SET);
  config.hcclDeterministic = number(own, "hccl_deterministic", HCCL_COMM_DETERMINISTIC_CONFIG_NOT_SET);
  config.hcclOpExpansionMode = number(own, "hccl_op_expansion_mode", HCCL_COMM_DEFAULT_OP_EXPANSION_MODE);
  config.hcclRdmaTrafficClass = number(own, "qos_traffic_class", HCCL_COMM_TRAFFIC_CLASS_CONFIG_NOT_SET);
  config.hcclRdmaServiceLevel = number(own, "qos_service_level", HCCL_COMM_SERVICE_LEVEL_CONFIG_NOT_SET);
  config.hcclQos = HCCL_COMM_QOS_CONFIG_NOT_SET;
  const auto named = own.find("group_name");
  const std::string& text = named == own.end() ? name : std::get<std::string>(named->second);
  std::strncpy(config.hcclCommName, text.c_str(), sizeof config.hcclCommName - 1);
  const auto seconds = std::chrono::ceil<std::chrono::seconds>(shortened(options.timeout)).count();
  config.hcclExecTimeOut = static_cast<int32_t>(std::clamp<int64_t>(seconds, 1, INT32_MAX));
  return config;
}

HcclRootInfo root_info(const Meeting& meeting, uint64_t number) {
  const std::vector<uint8_t> bytes = from_first(meeting, number, [] {
    HcclRootInfo info;
    HCCL_CHECK(cann::hccl().HcclGetRootInfo(&info));
    const auto* begin = reinterpret_cast<const uint8_t*>(&info);
    return std::vector<uint8_t>(begin, begin + sizeof info);
  });
  HcclRootInfo info;
  TORCH_CHECK(bytes.size() == sizeof info, "ProcessGroupHCCL: the store holds ", bytes.size(), " bytes under ",
              meeting.key, ", not a root info");
  std::memcpy(&info, bytes.data(), sizeof info);
  return info;
}

bool is_all(const std::vector<int>& ranks) {
  for (size_t i = 0; i < ranks.size(); ++i)
    if (ranks[i] != static_cast<int>(i)) return false;
  return true;
}

}  // namespace

Communicator::Communicator(const Meeting& meeting, const std::string& name, const GroupOptions& options)
    : ranks_(meeting.ranks) {
  const uint64_t number = meet(meeting);
  try {
    const HcclRootInfo info = root_info(meeting, number);
    handle_ = initialized(meeting, info, make_config(name, options));
  } catch (...) {
    give_up(meeting, number);
    throw;
  }
}

uint32_t Communicator::number_of(int rank) const {
  const auto found = std::find(ranks_.begin(), ranks_.end(), rank);
  return static_cast<uint32_t>(found == ranks_.end() ? rank : found - ranks_.begin());
}

Communicator::Communicator(const Communicator& parent, const std::vector<uint32_t>& ranks, uint64_t id, int rank,
                           const std::string& name, const GroupOptions& options) {
  HcclCommConfig config = make_config(name, options);
  HcclComm from = parent.handle(), made = nullptr;
  std::vector<uint32_t> members = ranks;
  const auto split = LATE_HCCL(HcclCreateSubCommConfig);
  if (!split) throw_missing("HcclCreateSubCommConfig");
  const HcclResult result = split(&from, static_cast<uint32_t>(members.size()), members.data(), id,
                                  static_cast<uint32_t>(rank), &config, &made);
  if (result != HCCL_SUCCESS) throw_hccl(result, "HcclCreateSubCommConfig");
  handle_ = made;
}

Communicator::~Communicator() { end(); }

void Communicator::end() noexcept {
  if (const HcclComm handle = handle_.exchange(nullptr)) cann::hccl().HcclCommDestroy(handle);
}

std::optional<std::string> Communicator::async_error() const {
  HcclResult result = HCCL_SUCCESS;
  const HcclComm handle = this->handle();
  if (!handle || cann::hccl().HcclGetCommAsyncError(handle, &result) != HCCL_SUCCESS || result == HCCL_SUCCESS)
    return {};
  const std::string message(cann::recent_message());
  if (is_all(ranks_)) return message;
  return c10::str(message, " (a communicator of the group's ranks ", c10::Join(", ", ranks_), ": its rank ",
                  ranks_.size() - 1, " is the group's ", ranks_.back(), ")");
}

bool Communicator::set_timeout(std::chrono::milliseconds timeout) {
  const auto set = LATE_HCCL(HcclSetCommConfig);
  HcclConfigValue value{};
  value.value = static_cast<int32_t>(std::clamp<int64_t>(shortened(timeout).count(), 1, INT32_MAX));
  return set && set(handle(), static_cast<HcclConfig>(ANYCEND_HCCL_EXEC_TIMEOUT_MS), value) == HCCL_SUCCESS;
}

void Communicator::resume() {
  const auto resume = LATE_HCCL(HcclCommResume);
  if (!resume) throw_missing("HcclCommResume");
  if (const HcclResult result = resume(handle()); result != HCCL_SUCCESS) throw_hccl(result, "HcclCommResume");
}

}  // namespace npu::distributed
