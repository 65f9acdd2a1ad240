// aten/NPUGeneratorImpl.h on csrc/core's generators.
#include "torch_npu/csrc/aten/NPUGeneratorImpl.h"

#include "csrc/core/device.h"
#include "csrc/core/generator.h"

namespace at_npu {

std::pair<uint64_t, uint64_t> NPUGeneratorImpl::philox_engine_inputs(uint64_t increment) {
  const npu::NPUGuard guard(device().index());
  const at::Generator self(c10::intrusive_ptr<c10::GeneratorImpl>::reclaim_copy(this));
  const npu::PhiloxSlice slice = npu::next_philox(self, increment);
  return {static_cast<uint64_t>(slice.seed), static_cast<uint64_t>(slice.offset)};
}

namespace detail {

const at::Generator& getDefaultNPUGenerator(c10::DeviceIndex index) { return npu::default_generator(index); }
at::Generator createNPUGenerator(c10::DeviceIndex index) { return npu::new_generator(index); }

}  // namespace detail
}  // namespace at_npu
