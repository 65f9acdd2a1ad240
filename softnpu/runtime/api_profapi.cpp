// Exports of libprofapi, libruntime and libc_sec that clients bind through libascendcl, on which those depend in CANN.
// Nobody profiles through this door yet: reports are accepted and forgotten, as CANN does when no profiler listens.
#include <cerrno>
#include <cstdarg>
#include <cstdint>
#include <cstdio>
#include <cstring>

#include "acl/api.h"
#include "softnpu/runtime/error.h"
#include "softnpu/runtime/futex.h"
#include "softnpu/runtime/limits.h"

SOFTNPU_EXPORT int32_t MsprofRegisterCallback(uint32_t moduleId, ProfCommandHandle handle) { return 0; }
SOFTNPU_EXPORT int32_t MsprofReportApi(uint32_t nonPersistantFlag, const struct MsprofApi* api) { return 0; }
SOFTNPU_EXPORT int32_t MsprofReportEvent(uint32_t nonPersistantFlag, const struct MsprofEvent* event) { return 0; }
SOFTNPU_EXPORT int32_t MsprofReportCompactInfo(uint32_t nonPersistantFlag, const VOID_PTR data, uint32_t length) {
  return 0;
}
SOFTNPU_EXPORT int32_t MsprofReportAdditionalInfo(uint32_t nonPersistantFlag, const VOID_PTR data, uint32_t length) {
  return 0;
}
SOFTNPU_EXPORT int32_t MsprofRegTypeInfo(uint16_t level, uint32_t typeId, const char* typeName) { return 0; }
SOFTNPU_EXPORT uint64_t MsprofSysCycleTime() { return uint64_t(softnpu::now_ns()); }

// The same text has the same id in every process (FNV-1a). Nothing has the id 0, which is what libprofapi returns for bad arguments.
SOFTNPU_EXPORT uint64_t MsprofGetHashId(const char* hashInfo, size_t length) {
  if (softnpu::wraps(hashInfo, length)) return 0;
  uint64_t h = 0xcbf29ce484222325;
  for (size_t i = 0; hashInfo && i < length; ++i) h = (h ^ uint8_t(hashInfo[i])) * 0x100000001b3;
  return h;
}

// The bounded string functions of libc_sec: on any failure the destination is empty and -1 is returned.
SOFTNPU_EXPORT int vsnprintf_s(char* strDest, size_t destMax, size_t count, const char* format, va_list args) {
  if (strDest == nullptr || destMax == 0 || format == nullptr) return -1;
  size_t room = count < destMax ? count + 1 : destMax;
  int n = vsnprintf(strDest, room, format, args);
  if (n >= 0 && size_t(n) < room) return n;
  if (count >= destMax || n < 0) strDest[0] = 0;
  return -1;
}

SOFTNPU_EXPORT int snprintf_s(char* strDest, size_t destMax, size_t count, const char* format, ...) {
  va_list args;
  va_start(args, format);
  int n = vsnprintf_s(strDest, destMax, count, format, args);
  va_end(args);
  return n;
}

SOFTNPU_EXPORT int strcpy_s(char* strDest, size_t destMax, const char* strSrc) {
  if (strDest == nullptr || destMax == 0) return EINVAL;
  if (strSrc == nullptr || strlen(strSrc) >= destMax) {
    strDest[0] = 0;
    return strSrc ? ERANGE : EINVAL;
  }
  memcpy(strDest, strSrc, strlen(strSrc) + 1);
  return 0;
}
