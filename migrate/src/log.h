// The log of one run, msFmkTranspltlog.txt: at most ten files of 1 MB, the newest lines in the one without a number.
// Lines are collected and written once, sorted as they were added, so the order does not depend on threads.
#pragma once
#include <string>
#include <string_view>

namespace migrate {

class Log {
 public:
  void info(std::string_view message) { add("INFO", message); }
  void warning(std::string_view message) { add("WARNING", message); }
  void error(std::string_view message) { add("ERROR", message); }
  // Returns why it could not be written, or empty.
  std::string write(const std::string& folder) const;

 private:
  void add(const char* level, std::string_view message);
  std::string text_;
};

}  // namespace migrate
