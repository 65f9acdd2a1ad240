#include "csrc/cann/error.h"

#include <c10/util/Exception.h>

#include <array>
#include <cctype>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <new>
#include <string>
#include <string_view>

#include "csrc/cann/api.h"
#include "csrc/cann/readable.h"

namespace cann {
namespace {

// The called function in "cann::acl().aclrtMalloc(&p, n)": the first identifier that CANN would spell.
std::string called_function(const std::string& expression) {
  size_t begin = 0;
  while (begin < expression.size()) {
    size_t end = begin;
    while (end < expression.size() &&
           (std::isalnum(static_cast<unsigned char>(expression[end])) || expression[end] == '_'))
      ++end;
    const std::string word = expression.substr(begin, end - begin);
    if (word.size() > 5 && (word.rfind("acl", 0) == 0 || word.rfind("Hccl", 0) == 0)) return word;
    begin = end + 1;
  }
  return expression;
}

// The name of the program's own kernel that failed, from the software NPU's words: "… add failed on device 0: block 3: add.asc:28: Add: …".
// Empty if an operator or another task failed, or if the words are another CANN's.
std::string_view own_kernel(std::string_view message) {
  const size_t end = message.find(" failed on device ");
  const size_t colon = message.find(": ", end);
  if (end == message.npos || colon == message.npos) return "";
  const std::string_view says = message.substr(colon + 2);
  if (!says.starts_with("block ") && says.find(" blocks wait") == says.npos) return "";
  const size_t space = message.rfind(' ', end - 1);
  const size_t begin = space == message.npos ? 0 : space + 1;
  return message.substr(begin, end - begin);
}

// A capture has failed because the host was to wait. Other calls with these statuses say what to do themselves: those of a task group's
// update, and captures that are invalid for another reason of the software NPU's.
bool waited_in_a_capture(int status, std::string_view symbol, std::string_view message) {
  if (message.find("updates a task group") != message.npos) return false;
  if (status == ACL_ERROR_RT_STREAM_CAPTURED) return symbol.starts_with("aclrtSynchronize");
  return message.find("could not take: ") == message.npos || message.find("was to be synchronized") != message.npos;
}

// What helps a program's author: the message itself speaks of CANN's functions.
std::string remedy(int status, std::string_view symbol, std::string_view message) {
  const char* blocking = std::getenv("ASCEND_LAUNCH_BLOCKING");
  const bool waits = blocking && *blocking == '1';
  switch (status) {
    case ACL_ERROR_RT_AICORE_EXCEPTION:
    case ACL_ERROR_RT_VECTOR_CORE_EXCEPTION:
    case ACL_ERROR_RT_AICPU_EXCEPTION: {
      if (const auto kernel = own_kernel(message); !kernel.empty())  // no operator's call, which could wait for it
        return ". A kernel's error is told by the next call that reaches its stream, whose name stands first: "
               "torch.npu.synchronize() behind the launch of " +
               std::string(kernel) + ", or behind its graph's replay, raises it there";
      return waits ? ""
                   : ". The device failed after the operator's call had returned: ASCEND_LAUNCH_BLOCKING=1 makes the "
                     "call itself fail, at its line";
    }
    case ACL_ERROR_RT_STREAM_CAPTURED:
    case ACL_ERROR_RT_STREAM_CAPTURE_INVALIDATED:
      return waited_in_a_capture(status, symbol, message)
                 ? ". Nothing may wait for the device while a graph is captured: .item(), `if tensor`, print(tensor), "
                   ".cpu(), .npu() of memory that is not pinned, x[mask], nonzero, unique, bincount, histc, svd, eig, "
                   "a learning rate on the npu, Adam without capturable=True, GradScaler.step, synchronize() of a "
                   "device, stream or event and another capture all wait; do it before or behind the capture "
                   "(anycend docs graphs)"
                 : "";
    case ACL_ERROR_RT_LOST_HEARTBEAT:
      return ". torch.npu.stop_device and restart_device make a device usable again";
    default:
      return "";
  }
}

std::string describe(int status, const std::string& symbol) {
  // "FORCE STOP" is what programs that recover look for in the text.
  const char* stop = status == ACL_ERROR_RT_DEVICE_TASK_ABORT ? "npu: FORCE STOP: " : "npu: ";
  std::string text = stop + symbol + " failed (returned " + std::to_string(status) + " " + status_name(status) + ")";
  const std::string message = recent_message();
  return (message.empty() ? text : text + ": " + message) + remedy(status, symbol, message);
}

// The last texts of errors of devices.
struct Told {
  std::mutex mutex;
  std::array<std::string, 16> texts;
  size_t next = 0;

  void add(const std::string& text) {
    const std::lock_guard<std::mutex> lock(mutex);
    texts[next++ % texts.size()] = text;
  }
};
Told& told() {
  static auto* const t = new Told();
  return *t;
}

}  // namespace

const char* status_name(int status) noexcept {
  switch (status) {
#define X(name) \
  case name:    \
    return #name;
#include "cann_status_names.inc"
#undef X
    default:
      return "unknown status";
  }
}

const char* recent_message() noexcept {
  const Api* api = detail::loaded_api.load(std::memory_order_acquire);
  const char* text = api && api->aclGetRecentErrMsg ? api->aclGetRecentErrMsg() : nullptr;
  thread_local std::string kept;
  try {
    return (kept = readable(text ? text : "")).c_str();
  } catch (const std::bad_alloc&) {
    return "";
  }
}

bool is_out_of_memory(int status) noexcept {
  return status == ACL_ERROR_RT_MEMORY_ALLOCATION || status == ACL_ERROR_RT_DEVICE_OOM ||
         status == ACL_ERROR_BAD_ALLOC || status == ACL_ERROR_GE_MEMORY_ALLOCATION ||
         status == ACL_ERROR_STORAGE_OVER_LIMIT;
}

bool was_told(const char* message) noexcept {
  const char* colon = std::strstr(message, ": ");
  const std::string_view what = colon ? colon + 2 : message;
  Told& t = told();
  const std::lock_guard<std::mutex> lock(t.mutex);
  for (const std::string& text : t.texts)
    if (!what.empty() && text.find(what) != text.npos) return true;
  return false;
}

void throw_status(int status, const char* symbol, const char* phase) {
  const std::string text = describe(status, std::string(symbol) + phase);
  if (is_out_of_memory(status)) TORCH_CHECK_WITH(OutOfMemoryError, false, text);
  switch (status) {
    case ACL_ERROR_RT_FEATURE_NOT_SUPPORT:
    case ACL_ERROR_API_NOT_SUPPORT:
    case ACL_ERROR_FEATURE_UNSUPPORTED:
    case ACL_ERROR_UNSUPPORTED_DATA_TYPE:
      TORCH_CHECK_NOT_IMPLEMENTED(false, text);
    case ACLNN_ERR_PARAM_NULLPTR:
    case ACLNN_ERR_PARAM_INVALID:
      TORCH_CHECK(false, text);
    default:
      told().add(text);
      throw c10::AcceleratorError({__func__, __FILE__, static_cast<uint32_t>(__LINE__)}, status, text);
  }
}

namespace detail {

void throw_call(int status, const char* expression) { throw_status(status, called_function(expression).c_str()); }

void warn_call(int status, const char* expression) noexcept {
  try {
    TORCH_WARN(describe(status, called_function(expression)));
  } catch (...) {  // a warning turned into an error has nowhere to go from a destructor
  }
}

}  // namespace detail
}  // namespace cann
