// See communicator.h.
#include "csrc/distributed/communicator.h"

#include <algorithm>
#include <cstring>
#include <thread>

#include "csrc/cann/api.h"
#include "csrc/cann/error.h"
#include "csrc/cann/root.h"
#include "csrc/distributed/check.h"
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

// How a network card and a chip go about it: the software NPU has neither.
void tell_what_has_no_effect(const HcclSettings& own) {
  if (!cann::root().soft) return;
  for (const char* name : {"hccl_op_expansion_mode", "qos_service_level", "qos_traffic_class"})
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

// All ranks have come to the first call of their group, or those who have not are named. The last one to come says so, so that
// each asks for one key, however many they are.
void meet(c10d::Store& store, const std::string& key, int rank, int size, std::chrono::milliseconds limit,
          const std::function<void()>& usable) {
  const auto here = [&](int r) { return key + "/here/" + std::to_string(r); };
  const std::string all = key + "/all";
  std::vector<std::string> everybody;
  for (int r = 0; r < size; ++r) everybody.push_back(here(r));
  store.set(here(rank), std::vector<uint8_t>{1});  // a call that is tried again says it again
  if (store.check(everybody)) store.set(all, std::vector<uint8_t>{1});
  const auto end = std::chrono::steady_clock::now() + limit;
  const auto longest = std::chrono::milliseconds(std::clamp(size / 4, 5, 100));
  for (auto pause = std::chrono::milliseconds(1); !store.check({all}); pause = std::min(pause * 2, longest)) {
    usable();
    if (std::chrono::steady_clock::now() > end) {
      std::vector<int> missing;
      for (int r = 0; r < size; ++r)
        if (!store.check({here(r)})) missing.push_back(r);
      if (missing.empty()) return;  // the last one came just now
      C10_THROW_ERROR(
          DistBackendError,
          c10::str(
              "ProcessGroupHCCL: rank", missing.size() == 1 ? " " : "s ", c10::Join(", ", missing), " of ", size,
              " did not connect within ", static_cast<double>(limit.count()) / 1000,
              " s (the group's timeout or HCCL_CONNECT_TIMEOUT). A group's first call makes its communicator and ",
              "needs all ranks. Where that call is a message, the others join by themselves, as soon as they have ",
              "called torch.npu.set_device or used one npu"));
    }
    std::this_thread::sleep_for(pause);
  }
}

}  // namespace

Communicator::Communicator(c10d::Store& store, const std::string& key, int rank, int size, const std::string& name,
                           const GroupOptions& options, const std::function<void()>& usable) {
  const auto& api = cann::hccl();
  meet(store, key, rank, size, std::min(options.timeout, settings().connect_timeout), usable);
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
  const HcclCommConfig config = make_config(name, options);
  HcclComm made = nullptr;
  HCCL_CHECK(
      api.HcclCommInitRootInfoConfig(static_cast<uint32_t>(size), &info, static_cast<uint32_t>(rank), &config, &made));
  handle_ = made;
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
  return std::string(cann::recent_message());
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
