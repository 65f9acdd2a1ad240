// Exports: host callbacks.
#include "acl/api.h"
#include "softnpu/runtime/callback.h"
#include "softnpu/runtime/error.h"
#include "softnpu/runtime/limits.h"
#include "softnpu/runtime/stream.h"

using namespace softnpu;

SOFTNPU_EXPORT aclError aclrtLaunchCallback(aclrtCallback fn, void* userData, aclrtCallbackBlockType blockType,
                                            aclrtStream stream) {
  return guarded(__func__, [&] {
    need(reinterpret_cast<void*>(fn), "fn");
    launch_callback(stream_of(stream), fn, userData, blockType == ACL_CALLBACK_BLOCK);
  });
}

SOFTNPU_EXPORT aclError aclrtLaunchHostFunc(aclrtStream stream, aclrtHostFunc fn, void* args) {
  return guarded(__func__, [&] {
    need(reinterpret_cast<void*>(fn), "fn");
    launch_host_function(stream_of(stream), fn, args);
  });
}

SOFTNPU_EXPORT aclError aclrtSubscribeReport(uint64_t threadId, aclrtStream stream) {
  return guarded(__func__, [&] { subscribe(threadId, stream_of(stream)); });
}

SOFTNPU_EXPORT aclError aclrtUnSubscribeReport(uint64_t threadId, aclrtStream stream) {
  return guarded(__func__, [&] { unsubscribe(threadId, stream_of(stream)); });
}

SOFTNPU_EXPORT aclError aclrtProcessReport(int32_t timeout) {
  return guarded(__func__, [&] { process_reports(deadline_of(timeout)); });
}

SOFTNPU_EXPORT aclError aclrtSubscribeHostFunc(uint64_t hostFuncThreadId, aclrtStream exeStream) {
  return guarded(__func__, [&] { subscribe(hostFuncThreadId, stream_of(exeStream)); });
}

SOFTNPU_EXPORT aclError aclrtUnSubscribeHostFunc(uint64_t hostFuncThreadId, aclrtStream exeStream) {
  return guarded(__func__, [&] { unsubscribe(hostFuncThreadId, stream_of(exeStream)); });
}

SOFTNPU_EXPORT aclError aclrtProcessHostFunc(int32_t timeout) {
  return guarded(__func__, [&] { process_reports(deadline_of(timeout)); });
}
