#include "csrc/core/external_event.h"

#include <c10/util/Exception.h>

#include "csrc/cann/error.h"
#include "csrc/cann/later.h"
#include "csrc/core/event.h"
#include "csrc/core/lifecycle.h"
#include "csrc/core/stream.h"

namespace npu {

ExternalEvent::ExternalEvent() : device_(current_device()) {
  initialize();
  ensure_context();
  TORCH_CHECK_NOT_IMPLEMENTED(cann::acl().aclrtCreateEventExWithFlag && cann::later().aclrtResetEvent,
                              "npu: this CANN has no external events (aclrtCreateEventExWithFlag, aclrtResetEvent)");
  NPU_CHECK(cann::acl().aclrtCreateEventExWithFlag(&event_, ACL_EVENT_EXTERNAL));
}

ExternalEvent::~ExternalEvent() { destroy_event(event_, device_); }

void ExternalEvent::record(c10::Stream stream) const { record_event(event_, stream); }
void ExternalEvent::wait(c10::Stream stream) const { wait_event(event_, stream); }

void ExternalEvent::reset(c10::Stream stream) const {
  const NPUGuard guard(stream.device_index());
  ensure_context();
  NPU_CHECK(cann::later().aclrtResetEvent(event_, raw_stream(stream)));
}

}  // namespace npu
