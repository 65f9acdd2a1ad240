// A status of CANN becomes an exception of PyTorch's, or text.
//     NPU_CHECK_ERROR(aclrtSynchronizeStream(stream));
#pragma once

#include <acl/acl_base.h>

#include "torch_npu/csrc/core/npu/NPUMacros.h"

namespace c10_npu {

// The calling thread's recent message of CANN, "" if there is none. Clears it. Stays valid until the thread's next call.
TORCH_NPU_API const char* c10_npu_get_error_message();

}  // namespace c10_npu

namespace torch_npu::extension {

// `call` is its text, whose function is named: "npu: aclrtMemcpy failed (returned 107002 ACL_ERROR_…): <recent message>".
// torch.OutOfMemoryError, NotImplementedError, RuntimeError (an argument was refused), torch.AcceleratorError.
[[noreturn]] TORCH_NPU_API void throw_status(int status, const char* call);

}  // namespace torch_npu::extension

#define NPU_CHECK_ERROR(call)                                                                     \
  do {                                                                                            \
    if (const int npu_check_error_status_ = static_cast<int>(call); npu_check_error_status_ != 0) \
      ::torch_npu::extension::throw_status(npu_check_error_status_, #call);                       \
  } while (false)
