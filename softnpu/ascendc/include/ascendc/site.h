// Where in the user's source a call was made, and the error that is thrown when the call is wrong. What it is not: an acl status;
// the launch turns the error into one (launch.h). Every call of the API takes a Site as its last, defaulted argument.
#pragma once

#include <cstdarg>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <exception>
#include <string>

namespace AscendC::detail {

struct Site {
  const char* file = "";
  int line = 0;
  static constexpr Site here(const char* file = __builtin_FILE(), int line = __builtin_LINE()) { return {file, line}; }
  const char* name() const {
    const char* slash = strrchr(file, '/');
    return slash ? slash + 1 : file;
  }
};

// What ends a block: a mistake of the kernel's, or that another block of the launch has ended so.
class KernelError : public std::exception {
 public:
  explicit KernelError(std::string text) : text_(std::move(text)) {}
  const char* what() const noexcept override { return text_.c_str(); }

 private:
  std::string text_;
};

__attribute__((format(printf, 1, 2))) inline std::string format(const char* text, ...) {
  char buffer[480];
  va_list list;
  va_start(list, text);
  vsnprintf(buffer, sizeof buffer, text, list);
  va_end(list);
  return buffer;
}

[[noreturn]] __attribute__((cold, noinline)) inline void fail(Site at, const char* what, const std::string& text) {
  throw KernelError(format("%s:%d: %s: ", at.name(), at.line, what) + text);
}

}  // namespace AscendC::detail

// The last parameter of every call: where it stands in the kernel's source.
#define ASCENDC_AT ::AscendC::detail::Site at = ::AscendC::detail::Site::here()
