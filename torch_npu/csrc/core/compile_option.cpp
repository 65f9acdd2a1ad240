#include "csrc/core/compile_option.h"

#include <c10/util/Exception.h>

#include "csrc/cann/api.h"
#include "csrc/cann/error.h"
#include "csrc/core/lifecycle.h"

namespace npu {

void set_compile_option(int option, const std::string& value) {
  initialize();
  cann::load_compiler();
  TORCH_CHECK_NOT_IMPLEMENTED(cann::acl().aclSetCompileopt, "npu: this CANN has no aclSetCompileopt");
  NPU_CHECK(cann::acl().aclSetCompileopt(static_cast<aclCompileOpt>(option), value.c_str()));
}

}  // namespace npu
