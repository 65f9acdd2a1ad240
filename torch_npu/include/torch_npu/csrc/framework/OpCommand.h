// Runs what an extension has prepared: a function that puts work on a stream and returns CANN's status.
//     at_npu::native::OpCommand::RunOpApiV2("aclnnAdd", [=]() -> int { return aclnnAdd(workspace, size, executor, stream); });
// It is called before the function returns; a status that is not 0 becomes PyTorch's exception with CANN's recent message, and what
// it throws goes on to the caller. With ASCEND_LAUNCH_BLOCKING=1 the current stream is waited for. Not thread-safe; one thread an object.
//
// What it is not: the way of CANN's single operators (aclop). A command described by Input, Output and Attr compiles and is a
// NotImplementedError when it runs, which names the operator: torch_npu calls aclnn functions.
#pragma once

#include <functional>
#include <string>

#include "torch_npu/csrc/core/npu/DeviceUtils.h"
#include "torch_npu/csrc/core/npu/NPUStream.h"
#include "torch_npu/csrc/core/npu/npu_log.h"

using std::string;  // as the vendor's headers do: copies of its macros say plain string

namespace at_npu::native {

using PROC_FUNC = std::function<int()>;

class TORCH_NPU_API OpCommand {
 public:
  OpCommand() = default;
  OpCommand(const OpCommand&) = delete;
  OpCommand& operator=(const OpCommand&) = delete;

  // What errors name.
  OpCommand& Name(const std::string& name) { return name_ = name, *this; }
  OpCommand& SetCustomHandler(PROC_FUNC handler) { return handler_ = std::move(handler), *this; }
  // Run() also waits for the current stream.
  OpCommand& Sync() { return sync_ = true, *this; }

  template <class... Arguments>
  OpCommand& Input(const Arguments&...) {
    return *this;
  }
  template <class... Arguments>
  OpCommand& InputWithoutContiguous(const Arguments&...) {
    return *this;
  }
  template <class... Arguments>
  OpCommand& Output(const Arguments&...) {
    return *this;
  }
  template <class... Arguments>
  OpCommand& Attr(const std::string&, const Arguments&...) {
    return *this;
  }

  // c10::Error without a name; NotImplementedError without a handler.
  void Run();

  // All three call `handler` at once, and wait for the current stream if `sync`. They differ where there is a task queue.
  static void RunOpApi(const std::string& name, PROC_FUNC handler, bool sync = false);
  static void RunOpApiV2(const std::string& name, const PROC_FUNC& handler, bool sync = false);
  // `stream` becomes the current one for the call; null leaves it.
  static void RunOpApiV3(const std::string& name, const PROC_FUNC& handler, bool sync = false,
                         c10_npu::NPUStream* stream = nullptr);

 private:
  std::string name_;
  PROC_FUNC handler_;
  bool sync_ = false;
};

}  // namespace at_npu::native
