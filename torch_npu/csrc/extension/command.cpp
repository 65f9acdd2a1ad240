// framework/OpCommand.h, and what its users say and ask: core/npu/npu_log.h, core/npu/NPUException.h.
#include "torch_npu/csrc/framework/OpCommand.h"

#include <c10/util/Exception.h>

#include <cstdarg>
#include <cstdio>
#include <cstdlib>

#include "csrc/cann/error.h"
#include "csrc/cann/log.h"
#include "csrc/core/device.h"
#include "csrc/core/launch.h"
#include "csrc/core/stream.h"
#include "torch_npu/csrc/core/npu/NPUException.h"
#include "torch_npu/csrc/core/npu/NPUGuard.h"

namespace at_npu::native {
namespace {

void run(const std::string& name, const PROC_FUNC& handler, bool sync) {
  TORCH_CHECK(handler, "npu: OpCommand ", name, " was given no function to call");
  npu::ensure_context();
  if (const int status = handler(); status != 0) cann::throw_status(status, name.c_str());
  if (sync)
    npu::synchronize_stream(npu::current_stream());
  else
    npu::wait_if_blocking();
}

}  // namespace

void OpCommand::Run() {
  TORCH_CHECK(!name_.empty(), "npu: an OpCommand needs Name(...) before Run()");
  TORCH_CHECK_NOT_IMPLEMENTED(handler_, "npu: ", name_,
                              " is described by Input, Output and Attr, as CANN's single operators (aclop) are, which "
                              "torch_npu does not run. Call the aclnn function instead: EXEC_NPU_CMD_EXT, or "
                              "SetCustomHandler");
  run(name_, handler_, sync_);
}

void OpCommand::RunOpApi(const std::string& name, PROC_FUNC handler, bool sync) { run(name, handler, sync); }
void OpCommand::RunOpApiV2(const std::string& name, const PROC_FUNC& handler, bool sync) { run(name, handler, sync); }
void OpCommand::RunOpApiV3(const std::string& name, const PROC_FUNC& handler, bool sync, c10_npu::NPUStream* stream) {
  c10_npu::OptionalNPUStreamGuard guard;
  if (stream) guard.reset_stream(stream->unwrap());
  run(name, handler, sync);
}

}  // namespace at_npu::native

namespace c10_npu {

const char* c10_npu_get_error_message() { return cann::recent_message(); }

namespace option {

bool OptionsManager::isACLGlobalLogOn(aclLogLevel level) {
  static const int least = [] {
    const char* text = std::getenv("ASCEND_GLOBAL_LOG_LEVEL");
    return text && text[0] >= '0' && text[0] <= '4' && !text[1] ? text[0] - '0' : static_cast<int>(ACL_ERROR);
  }();
  return static_cast<int>(level) >= least;
}

}  // namespace option
}  // namespace c10_npu

namespace torch_npu::extension {

void log(aclLogLevel level, const char* function, const char* file, unsigned line, const char* format, ...) {
  char text[4096];
  va_list arguments;
  va_start(arguments, format);
  std::vsnprintf(text, sizeof(text), format, arguments);
  va_end(arguments);
  cann::log(level, function, file, line, text);
}

void throw_status(int status, const char* call) { cann::detail::throw_call(status, call); }

}  // namespace torch_npu::extension
