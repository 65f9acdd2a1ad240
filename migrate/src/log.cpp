// See log.h.
#include "migrate/src/log.h"

#include <ctime>
#include <vector>

#include "migrate/src/files.h"
#include "migrate/src/source.h"

namespace migrate {

constexpr size_t kFileLimit = 1 << 20;
constexpr size_t kFiles = 10;

void Log::add(const char* level, std::string_view message) {
  char stamp[32];
  time_t now = time(nullptr);
  struct tm parts;
  localtime_r(&now, &parts);
  strftime(stamp, sizeof stamp, "%Y-%m-%d %H:%M:%S", &parts);
  std::string line = to_utf8(message);
  for (char& c : line)
    if (c == '\n' || c == '\r') c = ' ';
  if (line.size() > 4000) line.resize(4000);
  text_ += std::string(stamp) + " [" + level + "] " + line + "\n";
}

std::string Log::write(const std::string& folder) const {
  // Cut at line ends, from the front; only the last ten pieces are kept.
  std::vector<std::string_view> pieces;
  std::string_view rest = text_;
  while (rest.size() > kFileLimit) {
    size_t end = rest.rfind('\n', kFileLimit - 1) + 1;
    pieces.push_back(rest.substr(0, end));
    rest.remove_prefix(end);
  }
  pieces.push_back(rest);
  size_t first = pieces.size() > kFiles ? pieces.size() - kFiles : 0;
  for (size_t i = first; i < pieces.size(); ++i) {
    size_t age = pieces.size() - 1 - i;
    std::string name = folder + "/msFmkTranspltlog.txt" + (age ? "." + std::to_string(age) : "");
    if (std::string why = write_file(name, pieces[i]); !why.empty()) return name + ": " + why;
  }
  return "";
}

}  // namespace migrate
