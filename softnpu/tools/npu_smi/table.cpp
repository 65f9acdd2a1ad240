// npu-smi info: the table of chips and the table of processes. Widths are the vendor's; 910_93 and 950 have headings of their own.
#include <cstdio>
#include <string>

#include "softnpu/dcmi/machine.h"
#include "softnpu/tools/npu_smi/commands.h"

namespace softnpu::npu_smi {
namespace {

std::string text(const char* format, auto... values) {
  char out[160];
  snprintf(out, sizeof out, format, values...);
  return out;
}

void row(const std::string& left, const std::string& middle, const std::string& right) {
  printf("| %-25s | %-13s | %-51s |\n", left.c_str(), middle.c_str(), right.c_str());
}

void across(const std::string& words) { printf("| %-95s |\n", words.c_str()); }

void rule(char of) {
  const std::string all(53, of);
  printf("+%.27s+%.15s+%.53s+\n", all.c_str(), all.c_str(), all.c_str());
}

void chip(const Chip& c, const std::vector<machine::Process>& all) {
  const machine::Model& m = machine::model();
  const bool joined = m.family == machine::Family::k950;
  row(text(joined ? "%-7d %s" : "%-5d %s", c.npu, m.chip.c_str()),
      machine::lost(c.physical).empty() ? "OK" : "Critical", text("%-11.1f %-17d %-6d/ %d", 0.0, 0, 0, 0));
  std::string left = text("%d", c.chip);
  if (m.family == machine::Family::k910_93) left = text("%-5d %d", c.chip, c.physical);
  if (joined) left.clear();
  const auto mb = [](uint64_t bytes) { return static_cast<unsigned long long>(bytes >> 20); };
  row(left, text("0000:%02X:00.0", machine::bus(c.physical)),
      text("%-11d %-5d/ %-10d %-6llu/ %llu", machine::utilization(c.physical, kSampleMs), 0, 0,
           mb(machine::held(all, c.physical)), mb(machine::capacity())));
}

void processes(const std::vector<machine::Process>& all) {
  const machine::Model& m = machine::model();
  const bool joined = m.family == machine::Family::k950;
  rule('-');
  row(joined ? "NPU ID" : "NPU     Chip", "Process id", text("%-24s | %s", "Process name", "Process memory(MB)"));
  rule('=');
  for (int npu = 0; npu < machine::npu_count(); ++npu) {
    bool any = false;
    for (const machine::Process& p : all) {
      if (p.physical / m.chips != npu) continue;
      any = true;
      row(joined ? text("%d", npu) : text("%-7d %d", npu, p.physical % m.chips), text("%d", p.pid),
          text("%-24s | %llu", p.name.c_str(), static_cast<unsigned long long>(p.bytes >> 20)));
    }
    if (!any) across("No running processes found in NPU " + std::to_string(npu));
    rule('=');
  }
}

}  // namespace

void table() {
  const machine::Model& m = machine::model();
  const bool joined = m.family == machine::Family::k950;
  const std::vector<machine::Process> all = machine::processes();
  printf("+%s+\n", std::string(97, '-').c_str());
  across(text("npu-smi %-24s Version: %s", machine::version(), machine::version()));
  rule('-');
  row(joined ? "NPU ID  Name" : "NPU   Name", "Health", "Power(W)    Temp(C)           Hugepages-Usage(page)");
  row(joined                                 ? ""
      : m.family == machine::Family::k910_93 ? "Chip  Phy-ID"
                                             : "Chip",
      "Bus-Id", joined ? "NPU Util(%) Memory-Usage(MB)  HBM-Usage(MB)" : "AICore(%)   Memory-Usage(MB)  HBM-Usage(MB)");
  rule('=');
  for (const Chip& c : chips({})) {
    chip(c, all);
    rule(c.chip + 1 == machine::chips_of(c.npu) ? '=' : '-');
  }
  processes(all);
}

}  // namespace softnpu::npu_smi
