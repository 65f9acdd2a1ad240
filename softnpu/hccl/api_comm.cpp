// Exports: making, naming, asking and ending communicators; groups; configuration. The collectives' exports are in collectives/.
#include <algorithm>
#include <cstring>

#include "acl/api.h"
#include "hccl/api.h"
#include "softnpu/hccl/init.h"
#include "softnpu/hccl/status.h"
#include "softnpu/hccl/submit.h"

using namespace softnpu::hccl;

namespace {

template <class T>
T& target(T* pointer, const char* name) {
  if (!pointer) fail(HCCL_E_PTR, "%s is null", name);
  return *pointer;
}

// The place of the handle is looked at first: what `init` does cannot be done again.
template <class Init>
void create(HcclComm* comm, Init init) {
  HcclComm& created = target(comm, "comm");
  created = publish(init());
}

CommunicatorPtr of_setting(HcclComm comm, HcclConfig config) {
  if (static_cast<uint32_t>(config) != ANYCEND_HCCL_EXEC_TIMEOUT_MS)
    fail(HCCL_E_NOT_SUPPORT, "%d is not a setting of one communicator: HcclSetConfig has those of the process",
         static_cast<int>(config));
  return lookup(comm);
}

// The values that an HcclConfig has in CANN, and the highest of them that holds here: sums have the same bits every time (1) and are
// added up in the order of the ranks (2) whatever is asked for; collectives run on the streams' own threads (0), on no engine.
struct ProcessConfig {
  const char* name;
  int32_t values, honoured;
  std::atomic<int32_t> value;
};
ProcessConfig process_config[HCCL_CONFIG_RESERVED] = {{"HCCL_DETERMINISTIC", 3, 2, 1}, {"HCCL_ACCELERATOR", 6, 0, 0}};

ProcessConfig& of_process(HcclConfig config) {
  if (static_cast<unsigned>(config) >= HCCL_CONFIG_RESERVED)
    fail(HCCL_E_PARA, "%d is not an HcclConfig", static_cast<int>(config));
  return process_config[config];
}

}  // namespace

HCCL_EXPORT HcclResult HcclGetRootInfo(HcclRootInfo* rootInfo) {
  return guarded("HcclGetRootInfo", [&] { encode(make_root_info(), &target(rootInfo, "rootInfo")); });
}

HCCL_EXPORT HcclResult HcclGetRootInfoScalable(HcclRootInfo* rootInfo) {
  return guarded("HcclGetRootInfoScalable", [&] { encode(make_root_info(), &target(rootInfo, "rootInfo")); });
}

HCCL_EXPORT HcclResult HcclCommInitRootInfo(uint32_t nRanks, const HcclRootInfo* rootInfo, uint32_t rank,
                                            HcclComm* comm) {
  return guarded("HcclCommInitRootInfo", [&] {
    create(comm, [&] { return init_from_root(decode(target(rootInfo, "rootInfo")), nRanks, rank, default_options()); });
  });
}

HCCL_EXPORT HcclResult HcclCommInitRootInfoConfig(uint32_t nRanks, const HcclRootInfo* rootInfo, uint32_t rank,
                                                  const HcclCommConfig* config, HcclComm* comm) {
  return guarded("HcclCommInitRootInfoConfig", [&] {
    create(comm,
           [&] { return init_from_root(decode(target(rootInfo, "rootInfo")), nRanks, rank, options_of(config)); });
  });
}

// Several roots are there to spread the load of thousands of ranks; one carries what a software NPU's job has.
HCCL_EXPORT HcclResult HcclCommInitRootInfoScalable(uint32_t nRanks, uint32_t nRoot, const HcclRootInfo* rootInfoList,
                                                    uint32_t rank, uint32_t nExtRoot, const HcclCommConfig* config,
                                                    HcclComm* comm) {
  return guarded("HcclCommInitRootInfoScalable", [&] {
    if (!nRoot) fail(HCCL_E_PARA, "nRoot is 0");
    create(comm, [&] {
      return init_from_root(decode(target(rootInfoList, "rootInfoList")), nRanks, rank, options_of(config));
    });
  });
}

HCCL_EXPORT HcclResult HcclCommInitClusterInfo(const char* clusterInfo, uint32_t rank, HcclComm* comm) {
  return guarded("HcclCommInitClusterInfo",
                 [&] { create(comm, [&] { return init_from_table(clusterInfo, rank, default_options()); }); });
}

HCCL_EXPORT HcclResult HcclCommInitClusterInfoConfig(const char* clusterInfo, uint32_t rank, HcclCommConfig* config,
                                                     HcclComm* comm) {
  return guarded("HcclCommInitClusterInfoConfig",
                 [&] { create(comm, [&] { return init_from_table(clusterInfo, rank, options_of(config)); }); });
}

HCCL_EXPORT HcclResult HcclCommInitAll(uint32_t ndev, int32_t* devices, HcclComm* comms) {
  return guarded("HcclCommInitAll", [&] {
    target(comms, "comms");
    const std::vector<CommunicatorPtr> all = init_all(ndev, devices);
    for (uint32_t i = 0; i < ndev; ++i) comms[i] = publish(all[i]);
  });
}

HCCL_EXPORT HcclResult HcclCreateSubCommConfig(HcclComm* comm, uint32_t rankNum, uint32_t* rankIds, uint64_t subCommId,
                                               uint32_t subCommRankId, HcclCommConfig* config, HcclComm* subComm) {
  return guarded("HcclCreateSubCommConfig", [&] {
    const CommunicatorPtr parent = lookup(target(comm, "comm"));
    target(subComm, "subComm") = nullptr;
    if (!rankIds) return;  // this rank is not part of it
    if (!rankNum) fail(HCCL_E_PARA, "rankNum is 0");
    *subComm = publish(init_sub(*parent, {rankIds, rankIds + rankNum}, subCommId, subCommRankId, options_of(config)));
  });
}

// What is still queued or running ends with an error, at once and at every rank; it keeps what it needs until then.
HCCL_EXPORT HcclResult HcclCommDestroy(HcclComm comm) {
  return guarded("HcclCommDestroy", [&] { withdraw(comm)->close(); });
}

HCCL_EXPORT HcclResult HcclCommResume(HcclComm comm) {
  return guarded("HcclCommResume", [&] { lookup(comm)->resume(); });
}

HCCL_EXPORT HcclResult HcclGetCommName(HcclComm comm, char* commName) {
  return guarded("HcclGetCommName", [&] {
    target(commName, "commName");
    const std::string& name = lookup(comm)->options().name;
    memset(commName, 0, COMM_NAME_MAX_LENGTH);
    memcpy(commName, name.data(), std::min<size_t>(name.size(), COMM_NAME_MAX_LENGTH - 1));
  });
}

// How an operator that holds a collective finds its group: by the name of HcclGetCommName, on the thread's current device (ADR 9).
HCCL_EXPORT HcclResult HcomGetCommHandleByGroup(const char* group, HcclComm* commHandle) {
  return guarded("HcomGetCommHandleByGroup", [&] {
    target(commHandle, "commHandle") = nullptr;
    int32_t device = -1;
    if (aclrtGetDevice(&device) != ACL_SUCCESS) fail(HCCL_E_RUNTIME, "the thread has no current device");
    *commHandle = find_named(&target(group, "group"), device);
  });
}

HCCL_EXPORT HcclResult HcclGetRankId(HcclComm comm, uint32_t* rank) {
  return guarded("HcclGetRankId", [&] { target(rank, "rank") = lookup(comm)->rank(); });
}

HCCL_EXPORT HcclResult HcclGetRankSize(HcclComm comm, uint32_t* rankSize) {
  return guarded("HcclGetRankSize", [&] { target(rankSize, "rankSize") = lookup(comm)->size(); });
}

HCCL_EXPORT HcclResult HcclGetCommAsyncError(HcclComm comm, HcclResult* asyncError) {
  return guarded("HcclGetCommAsyncError", [&] {
    const Error error = lookup(comm)->error();
    target(asyncError, "asyncError") = error.code;
    if (error.code != HCCL_SUCCESS) report("HcclGetCommAsyncError", error.code, error.text.c_str());
  });
}

HCCL_EXPORT const char* HcclGetErrorString(HcclResult code) { return code_name(code); }

HCCL_EXPORT uint32_t HcclGetCommConfigCapability() { return HCCL_COMM_CONFIG_RESERVED; }

HCCL_EXPORT HcclResult HcclSetConfig(HcclConfig config, HcclConfigValue configValue) {
  return guarded("HcclSetConfig", [&] {
    ProcessConfig& c = of_process(config);
    const int32_t value = configValue.value;
    if (value < 0 || value >= c.values) fail(HCCL_E_PARA, "%s is 0 to %d, not %d", c.name, c.values - 1, value);
    if (value > c.honoured)
      fail(HCCL_E_NOT_SUPPORT, "%s %d: the software NPU has one way to carry out collectives, which is 0", c.name,
           value);
    c.value.store(value);
  });
}

HCCL_EXPORT HcclResult HcclGetConfig(HcclConfig config, HcclConfigValue* configValue) {
  return guarded("HcclGetConfig", [&] { target(configValue, "configValue").value = of_process(config).value.load(); });
}

// HcclConfig's own values hold for the process; of a communicator, its time limit can be changed.
HCCL_EXPORT HcclResult HcclSetCommConfig(HcclComm comm, HcclConfig config, HcclConfigValue configValue) {
  return guarded("HcclSetCommConfig", [&] {
    const CommunicatorPtr c = of_setting(comm, config);
    if (configValue.value < 0) fail(HCCL_E_PARA, "%d ms is not a time limit", configValue.value);
    c->limit_ms().store(configValue.value);
  });
}

HCCL_EXPORT HcclResult HcclGetCommConfig(HcclComm comm, HcclConfig config, HcclConfigValue* configValue) {
  return guarded("HcclGetCommConfig", [&] {
    const int64_t limit = of_setting(comm, config)->limit_ms().load();
    target(configValue, "configValue").value = static_cast<int32_t>(std::min<int64_t>(limit, INT32_MAX));
  });
}

HCCL_EXPORT HcclResult HcclGroupStart() {
  return guarded("HcclGroupStart", [] { group_start(); });
}

HCCL_EXPORT HcclResult HcclGroupEnd() {
  return guarded("HcclGroupEnd", [] { group_end(); });
}
