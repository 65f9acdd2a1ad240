// The throw of error.h, alone: programs that only read the registry (softnpu/dcmi, softnpu/tools) have it without the runtime.
#include <cstdarg>
#include <cstdio>

#include "softnpu/runtime/error.h"

namespace softnpu {

void fail(int code, const char* format, ...) {
  char text[2048];
  va_list args;
  va_start(args, format);
  vsnprintf(text, sizeof text, format, args);
  va_end(args);
  throw Error{code, text};
}

}  // namespace softnpu
