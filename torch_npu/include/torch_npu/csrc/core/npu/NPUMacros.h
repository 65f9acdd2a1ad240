// What libtorch_npu.so exports to extensions. Who includes it: the headers of this folder.
#pragma once

#define TORCH_NPU_API __attribute__((visibility("default")))
#define C10_NPU_API TORCH_NPU_API
