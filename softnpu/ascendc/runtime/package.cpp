// Exports for the aclnn functions of packages (host/package.h): what lies in an array of CANN's, which its C API does not tell, and the
// message of a call that is refused.
#include <string>

#include "acl/api.h"
#include "softnpu/ascendc/include/ascendc/runtime.h"
#include "softnpu/nnopbase/handles.h"
#include "softnpu/runtime/enqueue.h"

#define EXPORT extern "C" __attribute__((visibility("default")))

namespace {
template <class Slab>
int values_of(const void* handle, const void** values, uint64_t* size) noexcept {
  const auto* array = Slab::find(handle);
  if (array == nullptr) return 1;
  *values = array->values;
  *size = array->size;
  return 0;
}
}  // namespace

EXPORT int softnpuAscendcArray(const void* array, int kind, const void** values, uint64_t* size) {
  if (kind == 0) return values_of<nnopbase::IntArrays>(array, values, size);
  if (kind == 1) return values_of<nnopbase::FloatArrays>(array, values, size);
  return values_of<nnopbase::BoolArrays>(array, values, size);
}

EXPORT void softnpuAscendcMessage(const char* text) { softnpu::set_error_message(text); }
EXPORT const char* softnpuAscendcRecent() {
  thread_local std::string text;
  const char* const recent = aclGetRecentErrMsg();
  text = recent ? recent : "";
  softnpu::set_error_message(text.c_str());
  return text.c_str();
}
