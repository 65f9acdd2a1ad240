// The machine as its management sees it: NPUs of one chip or two, what they are called, what they hold, who uses them. Read from the
// environment (ANYCEND_*) and the registry of processes; nothing is started. Not what a program may use: ASCEND_RT_VISIBLE_DEVICES
// hides nothing here.
// Who uses it: api.cpp (libdcmi), softnpu/tools (npu_smi, msnpureport). Every function may throw softnpu::Error with one sentence.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace softnpu::machine {

// Which table of a server the chip belongs to.
enum class Family { k910, k910B, k910_93, k950 };

struct Model {
  Family family;
  std::string type;  // "Ascend", or empty
  std::string chip;  // 910B3, Ascend910, Ascend950PR
  std::string npu;   // 9392, 9599, or empty
  int chips;         // of one NPU
  int cores;
  unsigned pci_device;
};
const Model& model();
const char* version();  // the CANN whose interface we follow
inline const char* product() { return "Software NPU"; }

// Chips are numbered through: the physical id, which is the logical one, too.
int chip_count();
int npu_count();
int chips_of(int npu);  // 0: there is no such NPU
inline int physical(int npu, int chip) { return npu * model().chips + chip; }
unsigned bus(int physical);  // of the address 0000:<bus>:00.0, which aclrtDeviceGetPCIBusId tells, too

uint64_t capacity();  // bytes of a chip

struct Process {
  int pid;
  int physical;
  std::string name;
  uint64_t bytes;
};
// Who holds memory of a chip, by chip and process; of all users.
std::vector<Process> processes();
// What processes() cannot know, a sentence each; mostly nothing.
std::vector<std::string> unseen();
// This user's processes that have lost the chip (ANYCEND_FAULT) and live, without their bytes.
std::vector<Process> lost(int physical);
// Not more than there is: each user may fill the chip for himself.
uint64_t held(const std::vector<Process>& all, int physical);

// Percent; takes a sample where there is none (runtime/utilization.h).
int utilization(int physical, int sample_ms);

enum class Link { kSelf, kSio, kHccs, kUb };
Link link(int physical, int other);

// The processors that this process may use, as ranges: 0-3,8-11.
std::string processors();

}  // namespace softnpu::machine
