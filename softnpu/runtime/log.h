// CANN's process log: one line an event, to ~/ascend/log (or ASCEND_PROCESS_LOG_PATH) and, if asked, to standard output.
// Who uses it: error.cpp, process.cpp, aclAppLog. Not the recent error message (error.h).
#pragma once

#include <cstdarg>

namespace softnpu {

enum LogLevel : int { kDebug = 0, kInfo = 1, kWarning = 2, kError = 3, kNothing = 4 };

// ASCEND_GLOBAL_LOG_LEVEL, read once.
int log_level() noexcept;

void log_line(int level, const char* format, ...) noexcept __attribute__((format(printf, 2, 3)));
void log_line_v(int level, const char* format, va_list args) noexcept;

}  // namespace softnpu
