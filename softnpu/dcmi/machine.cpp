#include "softnpu/dcmi/machine.h"

#include <sched.h>

#include <algorithm>
#include <cstring>

#include "softnpu/runtime/config.h"
#include "softnpu/runtime/registry_view.h"
#include "softnpu/runtime/soc.h"
#include "softnpu/runtime/system_memory.h"
#include "softnpu/runtime/utilization.h"

namespace softnpu::machine {
namespace {

constexpr const char* kVersion = ANYCEND_CANN_VERSION;

// Ascend910_9392, Ascend950PR_9599: the part in front of the line is the chip, the one behind it the NPU.
Model split(Family family, const std::string& name, int chips, int cores, unsigned pci) {
  const size_t line = name.find('_');
  return {family, "", name.substr(0, line), name.substr(line + 1), chips, cores, pci};
}

Model make() {
  const Soc& soc = *config().soc;
  const std::string name = soc.name;
  if (name.starts_with("Ascend950")) return split(Family::k950, name, 1, soc.cube_cores, 0xD806);
  if (name.starts_with("Ascend910_")) return split(Family::k910_93, name, 2, soc.cube_cores, 0xD803);
  const bool b = soc.bf16;  // the first generation has a chip called 910B, too
  return {b ? Family::k910B : Family::k910,
          "Ascend",
          name.substr(strlen("Ascend")),
          "",
          1,
          soc.cube_cores,
          b ? 0xD802u : 0xD801u};
}

}  // namespace

const Model& model() {
  static const Model the = make();
  return the;
}

const char* version() { return kVersion; }

int chip_count() { return config().devices; }
int npu_count() { return (chip_count() + model().chips - 1) / model().chips; }
int chips_of(int npu) {
  return npu < 0 || npu >= npu_count() ? 0 : std::min(model().chips, chip_count() - npu * model().chips);
}
unsigned bus(int physical) { return 0x80 + unsigned(physical); }

uint64_t capacity() { return config().memory ? config().memory : system_memory().limit; }

std::vector<Process> processes() {
  std::vector<Process> all;
  for (const RegistryRecord& r : read_registry().records)
    if (r.committed && r.device < chip_count()) all.push_back({r.pid, r.device, r.name, r.committed});
  return all;
}

std::vector<std::string> unseen() {
  const RegistryView view = read_registry();
  std::vector<std::string> all;
  if (view.full)
    all.push_back("the registry of this user's processes is full (" + std::to_string(Registry::kRecords) +
                  " of them on devices): more are not shown");
  for (const auto& [user, damaged] : view.left_out)
    all.push_back("what processes of user " + std::to_string(user) + " hold is not all shown: " +
                  (damaged.files == 1 ? damaged.one + " is damaged: let the user remove it"
                                      : std::to_string(damaged.files) + " files are damaged, such as " + damaged.one +
                                            ": let the user remove them") +
                  " when none of these processes uses an NPU");
  for (const unsigned user : view.too_many)
    all.push_back("what processes of user " + std::to_string(user) +
                  " hold is not all shown: their files have more than " + std::to_string(Registry::kRecords) +
                  " records");
  return all;
}

std::vector<Process> lost(int physical) {
  std::vector<Process> all;
  for (const RegistryRecord& r : read_registry().records)
    if (r.lost && r.device == physical) all.push_back({r.pid, r.device, r.name, 0});
  return all;
}

uint64_t held(const std::vector<Process>& all, int physical) {
  uint64_t sum = 0;
  for (const Process& p : all)
    if (p.physical == physical) sum += p.bytes;
  return std::min(sum, capacity());
}

int utilization(int physical, int sample_ms) {
  static Utilization& the = *new Utilization;
  return the.percent(physical, sample_ms);
}

Link link(int physical, int other) {
  if (physical == other) return Link::kSelf;
  if (model().family == Family::k950) return Link::kUb;
  return model().chips == 2 && physical / 2 == other / 2 ? Link::kSio : Link::kHccs;
}

std::string processors() {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof set, &set) != 0) return "0-0";
  std::string text;
  for (int i = 0; i < CPU_SETSIZE; ++i) {
    if (!CPU_ISSET(i, &set)) continue;
    const int first = i;
    while (i + 1 < CPU_SETSIZE && CPU_ISSET(i + 1, &set)) ++i;
    text += (text.empty() ? "" : ",") + std::to_string(first) + "-" + std::to_string(i);
  }
  return text;
}

}  // namespace softnpu::machine
