// A line of CANN's log (aclAppLog, which takes any number of arguments and so is no row of api.h). Who calls it: csrc/extension.
#pragma once

namespace cann {

// `level` as aclLogLevel. Thread-safe. Throws c10::Error where no CANN can be loaded; nothing where CANN has no such function.
void log(int level, const char* function, const char* file, unsigned line, const char* text);

}  // namespace cann
