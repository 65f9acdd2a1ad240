// npu-smi info -t <type> -i <NPU> [-c <chip>]: one table, type -> what is said of a chip. The order of the lines is the vendor's.
// NA is what a software NPU has not; temperature and power are 0, because those who ask for them expect a number.
#include <cstdio>

#include "softnpu/dcmi/machine.h"
#include "softnpu/runtime/error.h"
#include "softnpu/tools/npu_smi/commands.h"

namespace softnpu::npu_smi {
namespace {

using machine::Family;

std::string number(uint64_t n) { return std::to_string(n); }
std::string megabytes(uint64_t bytes) { return number(bytes >> 20); }
std::string hex(unsigned n) {
  char text[16];
  snprintf(text, sizeof text, "0x%04X", n);
  return text;
}
std::string held_percent(const Chip& c) {
  return number(100 * machine::held(machine::processes(), c.physical) / machine::capacity());
}
std::string busy(const Chip& c) { return number(uint64_t(machine::utilization(c.physical, kSampleMs))); }
bool is(Family family) { return machine::model().family == family; }

void usages(const Chip& c) {
  line("DDR Capacity(MB)", "0");
  line("DDR Usage Rate(%)", "0");
  line("DDR Hugepages Total(page)", "0");
  line("DDR Hugepages Usage Rate(%)", "0");
  line("HBM Capacity(MB)", megabytes(machine::capacity()));
  line("HBM Usage Rate(%)", held_percent(c));
  line("Aicore Usage Rate(%)", busy(c));
  line("Aivector Usage Rate(%)", busy(c));
  line("Aicpu Usage Rate(%)", "0");
  line("Ctrlcpu Usage Rate(%)", "0");
  line("DDR Bandwidth Usage Rate(%)", "0");
  line("HBM Bandwidth Usage Rate(%)", "0");
  if (is(Family::k950)) {
    line("NPU Utilization(%)", busy(c));
    line("Aicube Usage Rate(%)", busy(c));
  }
}

void health(const Chip& c) {
  std::string by;
  for (const machine::Process& p : machine::lost(c.physical))
    by += (by.empty() ? "lost by process " : ", ") + std::to_string(p.pid) + " (" + p.name + ")";
  line("Health", by.empty() ? "OK" : "Critical");
  line("Error Code", "NA");
  line("Error Information", by.empty() ? "NA" : by);
}

void temp(const Chip&) { line("NPU Temperature (C)", "0"); }
void power(const Chip&) { line("NPU Real-time Power(W)", "0.0"); }

void memory(const Chip&) {
  line("DDR Capacity(MB)", "0");
  line("DDR Clock Speed(MHz)", "NA");
  line("HBM Capacity(MB)", megabytes(machine::capacity()));
  line("HBM Clock Speed(MHz)", "NA");
  line("HBM Temperature(C)", "0");
  line("HBM Manufacturer ID", "NA");
}

void common(const Chip& c) {
  line("Memory Usage Rate(%)", "0");
  line("HBM Usage Rate(%)", held_percent(c));
  line("Aicore Usage Rate(%)", busy(c));
  line("Aicore Freq(MHZ)", "NA");
  line("Aicore curFreq(MHZ)", "NA");
  line("Aicore Count", number(uint64_t(machine::model().cores)));
  line("Temperature(C)", "0");
  line("NPU Real-time Power(W)", "0.0");
}

void proc_mem(const Chip& c) {
  for (const machine::Process& p : machine::processes())
    if (p.physical == c.physical)
      printf("\tProcess id:%-10d Process name:%-24s Process memory(MB):%llu\n", p.pid, p.name.c_str(),
             static_cast<unsigned long long>(p.bytes >> 20));
}

void pci(const Chip& c) {
  char address[32];
  snprintf(address, sizeof address, "0000:%02X:00.0", machine::bus(c.physical));
  line("PCIe Bus Info", address);
}

void chip_names() {
  const machine::Model& m = machine::model();
  if (!m.type.empty()) line("Chip Type", m.type);
  line("Chip Name", m.chip);
  if (!m.npu.empty()) line("NPU Name", m.npu);
  line("Chip Version", "V1");
}

void board_of_chip(const Chip& c) {
  chip_names();
  for (const char* name : {"Board ID", "PCB ID", "BOM ID", "VDie ID", "NDie ID"}) line(name, "NA");
  line("Chip Position ID", number(uint64_t(c.chip)));
  pci(c);
  line("Firmware Version", machine::version());
}

// Of the NPU as a whole; it tells the chip's name only where an NPU is one chip and has a name of its own.
void board_of_npu(const Chip& c) {
  line("Product Name", machine::product());
  if (is(Family::k950)) chip_names();
  line("Model", "NA");
  line("Manufacturer", "NA");
  line("Serial Number", "NA");
  line("Software Version", machine::version());
  line("Driver Version", machine::version());
  line("Firmware Version", machine::version());
  line("Compatibility", "OK");
  for (const char* name : {"Board ID", "PCB ID", "BOM ID"}) line(name, "NA");
  pci(c);
  line("Slot ID", number(uint64_t(c.npu)));
  line("Class ID", "NA");
  line("PCI Vendor ID", "0x19E5");
  line("PCI Device ID", hex(machine::model().pci_device));
  line("Subsystem Vendor ID", "0x0200");
  line("Subsystem Device ID", "0x0100");
}

std::vector<Chip> asked(const Place& place) {
  if (!place.npu) fail(1, "-t of one NPU needs -i <NPU>; npu-smi info -l lists them");
  return chips(place);
}

// Of the chip that -c names, with its number first, or of every chip of the NPU, with the number last.
template <void (*one)(const Chip&)>
void of_chips(const Place& place) {
  const std::vector<Chip> all = asked(place);
  line("NPU ID", number(uint64_t(all[0].npu)));
  if (place.chip) {
    line("Chip ID", number(uint64_t(*place.chip)));
    return one(all[0]);
  }
  line("Chip Count", number(all.size()));
  for (const Chip& c : all) {
    printf("\n");
    one(c);
    line("Chip ID", number(uint64_t(c.chip)));
  }
}

void board(const Place& place) {
  if (place.chip) return of_chips<board_of_chip>(place);
  const std::vector<Chip> all = asked(place);
  line("NPU ID", number(uint64_t(all[0].npu)));
  board_of_npu(all[0]);
  line("Chip Count", number(all.size()));
}

void product(const Place& place) {
  const std::vector<Chip> all = asked(place);
  line("NPU ID", number(uint64_t(all[0].npu)));
  line("Product Type", machine::product());
}

void topo(const Place& place) {
  chips(place);
  topology();
}

}  // namespace

const std::vector<Query>& queries() {
  static const std::vector<Query> all = {
      {"board", "names, versions, PCI address", board},
      {"common", "the most asked for", of_chips<common>},
      {"health", "whether it works", of_chips<health>},
      {"memory", "what memory it has", of_chips<memory>},
      {"power", "0: a processor's is not the NPU's", of_chips<power>},
      {"proc-mem", "the processes that hold memory of it", of_chips<proc_mem>},
      {"product", "what it is", product},
      {"temp", "0, for the same reason", of_chips<temp>},
      {"topo", "how all lie to each other, and their processors (without -i)", topo},
      {"usages", "how much of it is in use", of_chips<usages>},
  };
  return all;
}

}  // namespace softnpu::npu_smi
