// aclnn operators by name. `find_opapi("aclnnAdd")` looks in packages of custom operators (packages.h), in libopapi_*.so and
// libcust_opapi.so beside libopapi.so, in libopapi.so, and in the libraries that some toolkits split off it; null if none has it.
// Who calls it: csrc/ops/aclnn_call.cpp at an operator's first call; api.cpp only points its readers here.
// Cost: a dlsym a library; callers keep the answer.
#pragma once

#include "csrc/cann/export.h"

namespace cann {

NPU_API void* find_opapi(const char* symbol);

// Where find_opapi looked, for the message of a missing operator: "libopapi.so in <directory>" or why it could not be loaded, and packages.
NPU_API const char* opapi_description();

}  // namespace cann
