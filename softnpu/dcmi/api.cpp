// libdcmi.so: what the vendor's management library answers to its most used queries. What is not here is a generated stub, which
// answers DCMI_ERR_CODE_NOT_SUPPORT. Cards are NPUs, devices their chips; the dcmiv2_ functions count chips through.
// Temperature and power are 0: a processor's are not the device's. Device memory is told as HBM; there is no other.
#include <algorithm>
#include <cstdio>
#include <cstring>
#include <string>

#include "acl/api.h"
#include "dcmi/api.h"
#include "softnpu/dcmi/machine.h"
#include "softnpu/runtime/enqueue.h"
#include "softnpu/runtime/error.h"

using namespace softnpu;

namespace {

constexpr int kSampleMs = 50;
constexpr int kMostProcesses = 32;  // the callers' arrays have so many
constexpr size_t kAffinityBytes = 32;

struct Refusal {
  int code;
};

// Runs the body: a chip that is not there and a null are refused with their codes, and what the machine throws is told as the
// thread's recent message.
template <class Body>
int answer(Body&& body) noexcept {
  try {
    body();
    return DCMI_OK;
  } catch (const Refusal& refusal) {
    return refusal.code;
  } catch (const Error& error) {
    set_error_message(error.message.c_str());
  } catch (...) {
    set_error_message("internal error");
  }
  return DCMI_ERR_CODE_INNER_ERR;
}

template <class T>
T& given(T* pointer) {
  if (pointer == nullptr) throw Refusal{DCMI_ERR_CODE_INVALID_PARAMETER};
  return *pointer;
}

int chip_at(int card, int device) {
  const int chips = machine::chips_of(card);
  if (chips == 0) throw Refusal{DCMI_ERR_CODE_INVALID_DEVICE_ID};
  if (device < 0 || device >= chips) throw Refusal{DCMI_ERR_CODE_INVALID_PARAMETER};
  return machine::physical(card, device);
}

int chip_at(int64_t id) {
  if (id < 0 || id >= machine::chip_count()) throw Refusal{DCMI_ERR_CODE_INVALID_DEVICE_ID};
  return int(id);
}

void text(char* to, int64_t bytes, const std::string& value) {
  given(to);
  if (bytes <= int64_t(value.size())) throw Refusal{DCMI_ERR_CODE_INVALID_PARAMETER};
  memcpy(to, value.c_str(), value.size() + 1);
}

void list(int* count, int* ids, int length, int have) {
  given(count), given(ids);
  if (length < have) throw Refusal{DCMI_ERR_CODE_INVALID_PARAMETER};
  for (int i = 0; i < have; ++i) ids[i] = i;
  *count = have;
}

// --- what is asked of one chip, in both generations of names ------------------------------------------------------------------

unsigned megabytes(uint64_t bytes) { return unsigned(bytes >> 20); }

void hbm(int chip, dcmi_hbm_info* info) {
  given(info) = {};
  info->memory_size = megabytes(machine::capacity());
  info->memory_usage = megabytes(machine::held(machine::processes(), chip));
}

unsigned hbm_percent(int chip) {
  return unsigned(100 * machine::held(machine::processes(), chip) / machine::capacity());
}

void rate(int chip, int type, unsigned* percent) {
  given(percent);
  switch (type) {
    case DCMI_UTILIZATION_RATE_AICORE:
    case DCMI_UTILIZATION_RATE_VECTORCORE:
    case DCMI_UTILIZATION_RATE_NPU:
    case DCMI_UTILIZATION_RATE_AICUBE:
      *percent = unsigned(machine::utilization(chip, kSampleMs));
      return;
    case DCMI_UTILIZATION_RATE_HBM:
      *percent = hbm_percent(chip);
      return;
    default:
      throw Refusal{DCMI_ERR_CODE_NOT_SUPPORT};
  }
}

void rates(int chip, dcmi_multi_utilization_info* info) {
  const unsigned percent = unsigned(machine::utilization(chip, kSampleMs));
  given(info) = {percent, percent, percent, percent, {}};
}

// 0: it works; 3, critical: a process has lost it.
unsigned health(int chip) { return machine::lost(chip).empty() ? 0 : 3; }

void spell(unsigned char (&to)[32], const std::string& value) {
  snprintf(reinterpret_cast<char*>(to), sizeof to, "%s", value.c_str());
}

template <class Info>
void chip_info(Info* info) {
  const machine::Model& m = machine::model();
  given(info) = {};
  spell(info->chip_type, m.type);
  spell(info->chip_name, m.chip);
  spell(info->chip_ver, "V1");
  info->aicore_cnt = unsigned(m.cores);
  if constexpr (sizeof(Info) == sizeof(dcmi_chip_info_v2)) spell(info->npu_name, m.npu);
}

template <class Info>
void pcie(int chip, Info* info) {
  given(info) = {};
  info->deviceid = machine::model().pci_device;
  info->venderid = 0x19e5;
  info->subvenderid = 0x0200;
  info->subdeviceid = 0x0100;
  info->bdf_busid = machine::bus(chip);
}

void processes(int chip, dcmi_proc_mem_info* info, int* count) {
  given(info), given(count) = 0;
  for (const machine::Process& p : machine::processes())
    if (p.physical == chip && *count < kMostProcesses) info[(*count)++] = {p.pid, p.bytes};
}

// Ranges of processors, as many as fit into the callers' buffers. The vendor's torch_npu takes the first range, and aborts where that is a
// single processor.
void affinity(char* ranges, int* length) {
  given(ranges), given(length);
  std::string value = machine::processors();
  while (value.size() >= kAffinityBytes) value.resize(value.rfind(','));
  const std::string first = value.substr(0, value.find(','));
  if (first.substr(0, first.find('-')) == first.substr(first.find('-') + 1)) throw Refusal{DCMI_ERR_CODE_NOT_SUPPORT};
  memcpy(ranges, value.c_str(), value.size() + 1);
  *length = int(value.size());
}

void topology(int chip, int other, int* type) {
  switch (machine::link(chip, other)) {
    case machine::Link::kSelf:
      given(type) = DCMI_TOPO_TYPE_SELF;
      return;
    case machine::Link::kSio:
      given(type) = DCMI_TOPO_TYPE_SIO;
      return;
    case machine::Link::kUb:
      given(type) = DCMI_TOPO_TYPE_UB;
      return;
    case machine::Link::kHccs:
      given(type) = DCMI_TOPO_TYPE_HCCS;
  }
}

int ready() noexcept {
  return answer([] { machine::model(); });
}

}  // namespace

// --- the machine ------------------------------------------------------------------------------------------------------------

SOFTNPU_EXPORT int dcmi_init() { return ready(); }
SOFTNPU_EXPORT int dcmiv2_init() { return ready(); }

SOFTNPU_EXPORT int dcmi_get_dcmi_version(char* to, unsigned len) {
  return answer([&] { text(to, len, machine::version()); });
}
SOFTNPU_EXPORT int dcmiv2_get_dcmi_version(char* to, unsigned len) { return dcmi_get_dcmi_version(to, len); }
SOFTNPU_EXPORT int dcmi_get_driver_version(char* to, unsigned len) { return dcmi_get_dcmi_version(to, len); }
SOFTNPU_EXPORT int dcmiv2_get_driver_version(char* to, unsigned len) { return dcmi_get_dcmi_version(to, len); }

SOFTNPU_EXPORT int dcmi_get_driver_health(unsigned* health) {
  return answer([&] { given(health) = 0; });
}
SOFTNPU_EXPORT int dcmiv2_get_driver_health(unsigned* health) { return dcmi_get_driver_health(health); }

SOFTNPU_EXPORT int dcmi_get_all_device_count(int* count) {
  return answer([&] { given(count) = machine::chip_count(); });
}
SOFTNPU_EXPORT int dcmiv2_get_all_device_count(int* count) { return dcmi_get_all_device_count(count); }

SOFTNPU_EXPORT int dcmi_get_card_list(int* card_num, int* card_list, int list_len) {
  return answer([&] { list(card_num, card_list, list_len, machine::npu_count()); });
}
SOFTNPU_EXPORT int dcmi_get_card_num_list(int* card_num, int* card_list, int list_len) {
  return dcmi_get_card_list(card_num, card_list, list_len);
}
SOFTNPU_EXPORT int dcmiv2_get_device_list(int* device_list, int* device_cnt, int list_len) {
  return answer([&] { list(device_cnt, device_list, list_len, machine::chip_count()); });
}

SOFTNPU_EXPORT int dcmi_get_device_num_in_card(int card_id, int* device_num) {
  return answer([&] {
    chip_at(card_id, 0);
    given(device_num) = machine::chips_of(card_id);
  });
}
SOFTNPU_EXPORT int dcmi_get_device_id_in_card(int card_id, int* device_id_max, int* mcu_id, int* cpu_id) {
  return answer([&] {
    chip_at(card_id, 0);
    given(mcu_id) = given(cpu_id) = -1;  // none
    given(device_id_max) = machine::chips_of(card_id);
  });
}
SOFTNPU_EXPORT int dcmi_get_fault_device_num_in_card(int card_id, int* device_num) {
  return answer([&] {
    chip_at(card_id, 0);
    int broken = 0;
    for (int chip = 0; chip < machine::chips_of(card_id); ++chip)
      broken += health(machine::physical(card_id, chip)) != 0;
    given(device_num) = broken;
  });
}

// --- numbers of a chip --------------------------------------------------------------------------------------------------------

SOFTNPU_EXPORT int dcmi_get_device_logic_id(int* device_logic_id, int card_id, int device_id) {
  return answer([&] { given(device_logic_id) = chip_at(card_id, device_id); });
}
SOFTNPU_EXPORT int dcmi_get_device_logicid_from_phyid(unsigned phyid, unsigned* logicid) {
  return answer([&] { given(logicid) = unsigned(chip_at(phyid)); });
}
SOFTNPU_EXPORT int dcmi_get_device_phyid_from_logicid(unsigned logicid, unsigned* phyid) {
  return dcmi_get_device_logicid_from_phyid(logicid, phyid);
}
SOFTNPU_EXPORT int dcmi_get_card_id_device_id_from_logicid(int* card_id, int* device_id, unsigned device_logic_id) {
  return answer([&] {
    const int chip = chip_at(device_logic_id), chips = machine::model().chips;
    given(card_id) = chip / chips;
    given(device_id) = chip % chips;
  });
}
SOFTNPU_EXPORT int dcmi_get_card_id_device_id_from_phyid(int* card_id, int* device_id, unsigned device_phy_id) {
  return dcmi_get_card_id_device_id_from_logicid(card_id, device_id, device_phy_id);
}
SOFTNPU_EXPORT int dcmiv2_get_chip_phy_id_by_dev_id(int dev_id, unsigned* phyid) {
  return answer([&] { given(phyid) = unsigned(chip_at(dev_id)); });
}
SOFTNPU_EXPORT int dcmiv2_get_dev_id_by_chip_phy_id(int phyid, unsigned* dev_id) {
  return dcmiv2_get_chip_phy_id_by_dev_id(phyid, dev_id);
}

// --- a chip -------------------------------------------------------------------------------------------------------------------

// One query under its two names: v1(card, device, ...) and v2(chip, ...).
#define LIST(...) __VA_ARGS__
#define BOTH(v1, v2, parameters, body)                                 \
  SOFTNPU_EXPORT int v1(int card_id, int device_id, LIST parameters) { \
    return answer([&] {                                                \
      [[maybe_unused]] const int chip = chip_at(card_id, device_id);   \
      body;                                                            \
    });                                                                \
  }                                                                    \
  SOFTNPU_EXPORT int v2(int dev_id, LIST parameters) {                 \
    return answer([&] {                                                \
      [[maybe_unused]] const int chip = chip_at(dev_id);               \
      body;                                                            \
    });                                                                \
  }

BOTH(dcmi_get_device_type, dcmiv2_get_device_type, (dcmi_unit_type * type), given(type) = NPU_TYPE)
BOTH(dcmi_get_device_health, dcmiv2_get_device_health, (unsigned* level), given(level) = health(chip))
BOTH(dcmi_get_device_temperature, dcmiv2_get_device_temperature, (int* celsius), given(celsius) = 0)
BOTH(dcmi_get_device_power_info, dcmiv2_get_device_power_info, (int* tenths), given(tenths) = 0)
BOTH(dcmi_get_device_errorcode_v2, dcmiv2_get_device_error_code_list, (int* count, unsigned*, unsigned),
     given(count) = 0)
BOTH(dcmi_get_device_hbm_info, dcmiv2_get_device_hbm_info, (dcmi_hbm_info * info), hbm(chip, info))
BOTH(dcmi_get_device_utilization_rate, dcmiv2_get_device_utilization_rate, (int type, unsigned* percent),
     rate(chip, type, percent))
BOTH(dcmi_get_device_multi_utilization_rate, dcmiv2_get_device_multi_utilization_rate,
     (dcmi_multi_utilization_info * info), rates(chip, info))
BOTH(dcmi_get_device_chip_info_v2, dcmiv2_get_device_chip_info, (dcmi_chip_info_v2 * info), chip_info(info))
BOTH(dcmi_get_device_pcie_info_v2, dcmiv2_get_device_pcie_info, (dcmi_pcie_info_all * info), pcie(chip, info))
BOTH(dcmi_get_device_resource_info, dcmiv2_get_device_proc_mem_info, (dcmi_proc_mem_info * info, int* count),
     processes(chip, info, count))
BOTH(dcmi_get_affinity_cpu_info_by_device_id, dcmiv2_get_affinity_cpu_info_by_device_id, (char* ranges, int* length),
     affinity(ranges, length))

SOFTNPU_EXPORT int dcmiv2_get_affinity_cpu_info_by_dev_id(int dev_id, char* ranges, int* length) {
  return dcmiv2_get_affinity_cpu_info_by_device_id(dev_id, ranges, length);
}
SOFTNPU_EXPORT int dcmi_get_hbm_info(int card_id, int device_id, dsmi_hbm_info_stru* info) {
  return dcmi_get_device_hbm_info(card_id, device_id, info);
}
SOFTNPU_EXPORT int dcmi_get_device_chip_info(int card_id, int device_id, dcmi_chip_info* info) {
  return answer([&] {
    chip_at(card_id, device_id);
    chip_info(info);
  });
}
SOFTNPU_EXPORT int dcmi_get_device_pcie_info(int card_id, int device_id, dcmi_pcie_info* info) {
  return answer([&] { pcie(chip_at(card_id, device_id), info); });
}
SOFTNPU_EXPORT int dcmi_get_product_type(int card_id, int device_id, char* to, int buf_size) {
  return answer([&] {
    chip_at(card_id, device_id);
    text(to, buf_size, machine::product());
  });
}
SOFTNPU_EXPORT int dcmi_get_topo_info_by_device_id(int card_id1, int device_id1, int card_id2, int device_id2,
                                                   int* type) {
  return answer([&] { topology(chip_at(card_id1, device_id1), chip_at(card_id2, device_id2), type); });
}
SOFTNPU_EXPORT int dcmiv2_get_topo_info_by_device_id(int dev_id1, int dev_id2, int* type) {
  return answer([&] { topology(chip_at(dev_id1), chip_at(dev_id2), type); });
}
