// npu-smi info watch: a line a chip, every few seconds, until the tool is ended.
#include <chrono>
#include <cstdio>
#include <cstring>
#include <thread>

#include "softnpu/dcmi/machine.h"
#include "softnpu/runtime/error.h"
#include "softnpu/tools/npu_smi/commands.h"

namespace softnpu::npu_smi {
namespace {

constexpr int kSampleMs = 100;

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

std::string value(char letter, const Chip& c) {
  switch (letter) {
    case 'p':
      return "0.0";
    case 'a':
    case 'n':
    case 'u':
      return std::to_string(machine::utilization(c.physical, kSampleMs));
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
  do {
    for (const Chip& c : all) {
      printf("%-12d%-12d", c.npu, c.chip);
      for (const Column& column : kColumns)
        if (shown(column)) printf("%-12s ", value(column.letter, c).c_str());
      printf("\n");
    }
    if (fflush(stdout) != 0) return;
    std::this_thread::sleep_for(std::chrono::seconds(seconds));
  } while (true);
}

}  // namespace softnpu::npu_smi
