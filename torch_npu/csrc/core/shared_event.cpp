#include "csrc/core/shared_event.h"

#include <c10/util/Exception.h>

#include <cstring>

#include "csrc/cann/error.h"
#include "csrc/cann/later.h"
#include "csrc/core/event.h"

namespace npu {
namespace {

const cann::Api& api() {
  TORCH_CHECK_NOT_IMPLEMENTED(cann::acl().aclrtIpcGetEventHandle && cann::acl().aclrtIpcOpenEventHandle,
                              "npu: this CANN has no events between processes (aclrtIpcGetEventHandle)");
  return cann::acl();
}

}  // namespace

SharedEvent::SharedEvent(c10::DeviceIndex device) : device_(device) {
  const NPUGuard guard(device);
  ensure_context();
  NPU_CHECK(api().aclrtCreateEventExWithFlag(&event_, ACL_EVENT_IPC));
}

SharedEvent::SharedEvent(std::string_view bytes, c10::DeviceIndex device) : device_(device) {
  aclrtIpcEventHandle handle{};
  TORCH_CHECK_VALUE(bytes.size() == sizeof handle.reserved, "npu: the handle of an event has ", sizeof handle.reserved,
                    " bytes, got ", bytes.size());
  std::memcpy(handle.reserved, bytes.data(), bytes.size());
  const NPUGuard guard(device);
  ensure_context();
  NPU_CHECK(api().aclrtIpcOpenEventHandle(handle, &event_));
}

SharedEvent::~SharedEvent() { destroy_event(event_, device_); }

std::string SharedEvent::handle() const {
  aclrtIpcEventHandle handle{};
  NPU_CHECK(api().aclrtIpcGetEventHandle(event_, &handle));
  return {handle.reserved, sizeof handle.reserved};
}

void SharedEvent::record(c10::Stream stream) const { record_event(event_, stream); }
void SharedEvent::wait(c10::Stream stream) const { wait_event(event_, stream); }
void SharedEvent::synchronize() const { synchronize_event(event_); }

bool SharedEvent::query() const {
  aclrtEventStatus status = ACL_EVENT_STATUS_NOT_READY;
  NPU_CHECK(cann::later().aclrtQueryEvent(event_, &status));
  return status == ACL_EVENT_STATUS_COMPLETE;
}

}  // namespace npu
