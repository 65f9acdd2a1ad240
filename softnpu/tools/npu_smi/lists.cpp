// npu-smi info -l, -m and -t topo: which NPUs there are and how they lie to each other.
#include <cstdio>

#include "softnpu/dcmi/machine.h"
#include "softnpu/runtime/error.h"
#include "softnpu/tools/npu_smi/commands.h"

namespace softnpu::npu_smi {
namespace {

void columns(const std::vector<std::string>& words) {
  printf("\t");
  for (const std::string& word : words) printf("%-30s ", word.c_str());
  printf("\n");
}

}  // namespace

void list() {
  line("Total Count", std::to_string(machine::npu_count()));
  for (int npu = 0; npu < machine::npu_count(); ++npu) {
    printf("\n");
    line("NPU ID", std::to_string(npu));
    line("Product Name", machine::product());
    line("Serial Number", "NA");
    line("Chip Count", std::to_string(machine::chips_of(npu)));
  }
}

// Its columns differ by family: who reads them takes the name from the fourth word on where chips have no physical id of their own.
void mapping() {
  const machine::Model& m = machine::model();
  const std::string name = m.type.empty() ? m.chip : m.type + " " + m.chip;
  switch (m.family) {
    case machine::Family::k950:
      columns({"NPU ID", "Slot ID", "Chip ID", "Chip Phy-ID", "Chip Name"});
      break;
    case machine::Family::k910_93:
      columns({"NPU ID", "Chip ID", "Chip Logic ID", "Chip Phy-ID", "Chip Name"});
      break;
    default:
      columns({"NPU ID", "Chip ID", "Chip Logic ID", "Chip Name"});
  }
  for (const Chip& c : chips({})) {
    const std::string npu = std::to_string(c.npu), chip = std::to_string(c.chip), id = std::to_string(c.physical);
    if (m.family == machine::Family::k950)
      columns({npu, npu, chip, id, name});
    else if (m.family == machine::Family::k910_93)
      columns({npu, chip, id, id, name});
    else
      columns({npu, chip, id, name});
  }
}

void topology() {
  const std::vector<Chip> all = chips({});
  const std::string processors = machine::processors();
  printf("%-11s", "");
  for (const Chip& c : all) printf("%-11s", ("NPU" + std::to_string(c.physical)).c_str());
  printf("CPU Affinity\n");
  for (const Chip& c : all) {
    printf("%-11s", ("NPU" + std::to_string(c.physical)).c_str());
    for (const Chip& o : all) {
      switch (machine::link(c.physical, o.physical)) {
        case machine::Link::kSelf:
          printf("%-11s", "X");
          break;
        case machine::Link::kSio:
          printf("%-11s", "SIO");
          break;
        case machine::Link::kUb:
          printf("%-11s", "UB");
          break;
        case machine::Link::kHccs:
          printf("%-11s", "HCCS");
      }
    }
    printf("%s\n", processors.c_str());
  }
  printf(
      "\nLegend:\n\n  X    = Self\n  SIO  = The other chip of the same NPU\n  HCCS = Shared memory of the host\n"
      "  UB   = Shared memory of the host\n");
}

void reset(const Place& place) {
  if (!place.npu) fail(1, "set -t reset needs -i <NPU>");
  const std::vector<machine::Process> all = machine::processes();
  for (const Chip& c : chips(place))
    for (const machine::Process& p : all)
      if (p.physical == c.physical)
        fail(1, "NPU %d is in use by process %d (%s): end it first", c.npu, p.pid, p.name.c_str());
  line("Status", "OK");
  line("Message", "Nobody uses the NPU, and it keeps nothing: it is as after a reset");
}

}  // namespace softnpu::npu_smi
