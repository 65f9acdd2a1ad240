// Which chips a command means, and a line of what it says of one.
#include <cstdio>

#include "softnpu/dcmi/machine.h"
#include "softnpu/runtime/error.h"
#include "softnpu/tools/npu_smi/commands.h"

namespace softnpu::npu_smi {

void line(const char* name, const std::string& value) { printf("\t%-30s : %s\n", name, value.c_str()); }

std::vector<Chip> chips(const Place& place) {
  const int count = machine::npu_count();
  if (place.npu && machine::chips_of(*place.npu) == 0)
    fail(1, "there is no NPU %d: there are %d, counted from 0 (ANYCEND_DEVICES)", *place.npu, count);
  std::vector<Chip> found;
  for (int npu = 0; npu < count; ++npu)
    for (int chip = 0; chip < machine::chips_of(npu); ++chip)
      if (place.npu.value_or(npu) == npu && place.chip.value_or(chip) == chip)
        found.push_back({npu, chip, machine::physical(npu, chip)});
  if (found.empty() && place.chip)
    fail(1, "there is no chip %d: an NPU of %s has %d, counted from 0", *place.chip, machine::model().chip.c_str(),
         machine::model().chips);
  return found;
}

}  // namespace softnpu::npu_smi
