// npu-smi info watch: a line a chip, every few seconds, until the tool is ended.
#include <chrono>
#include <cstdio>
#include <cstring>
#include <thread>
#include <utility>

#include "softnpu/dcmi/machine.h"
#include "softnpu/runtime/error.h"
#include "softnpu/runtime/utilization.h"
#include "softnpu/tools/npu_smi/commands.h"

namespace softnpu::npu_smi {
namespace {

struct Column {
  char letter;
  const char* heading;
  const char* what;
};
constexpr Column kColumns[] = {
    {'p', "Pwr(W)", "Power"},
    {'t', "Temp(C)", "Temperature"},
    {'a', "AI Core(%)", "AI Core Usage"},
    {'i', "AI Cpu(%)", "AI CPU Usage"},
    {'c', "Ctrl Cpu(%)", "Control CPU Usage"},
    {'m', "Memory(%)", "Memory Usage"},
    {'b', "Memory BW(%)", "Memory Bandwidth Usage"},
    {'n', "NPU Util(%)", "NPU Utilization"},
    {'u', "AI Cube(%)", "AI Cube Usage"},
};

// Percent of each chip between two lines, of a sample before the first one.
struct Lines {
  RegistryView before, now;
  int percent(const Chip& c) const { return Utilization::percent(c.physical, before, now); }
};

std::string value(char letter, const Chip& c, const Lines& lines) {
  switch (letter) {
    case 'p':
      return "0.0";
    case 'a':
    case 'n':
    case 'u':
      return std::to_string(lines.percent(c));
    case 'm':
      return std::to_string(100 * machine::held(machine::processes(), c.physical) / machine::capacity());
    default:
      return "0";
  }
}

}  // namespace

void watch_help() {
  printf("usage: npu-smi info watch [-i <NPU>] [-c <chip>] [-d <seconds>] [-s <letters>]\n  -s, some of %s:\n",
         kWatched);
  for (const Column& column : kColumns) printf("    %c - %s\n", column.letter, column.what);
}

void watch(const Place& place, int seconds, const std::string& what) {
  for (char letter : what)
    if (!strchr(kWatched, letter)) fail(1, "-s %s: '%c' is none of the letters %s", what.c_str(), letter, kWatched);
  const std::vector<Chip> all = chips(place);
  auto shown = [&](const Column& column) { return what.find(column.letter) != std::string::npos; };
  printf("%-12s%-12s", "NpuID(Idx)", "ChipId(Idx)");
  for (const Column& column : kColumns)
    if (shown(column)) printf("%-12s ", column.heading);
  printf("\n");
  Lines lines{{}, read_registry()};
  std::this_thread::sleep_for(std::chrono::milliseconds(kSampleMs));
  auto next = std::chrono::steady_clock::now();
  while (true) {
    lines.before = std::exchange(lines.now, read_registry());
    for (const Chip& c : all) {
      printf("%-12d%-12d", c.npu, c.chip);
      for (const Column& column : kColumns)
        if (shown(column)) printf("%-12s ", value(column.letter, c, lines).c_str());
      printf("\n");
    }
    if (fflush(stdout) != 0) return;
    std::this_thread::sleep_until(next += std::chrono::seconds(seconds));
  }
}

}  // namespace softnpu::npu_smi
