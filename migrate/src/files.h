// Reading, writing and walking: whole files, atomic writes, no link followed out of the input.
#pragma once
#include <algorithm>
#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

namespace migrate {

inline bool ends_with_any(const std::string& path, std::initializer_list<std::string_view> tails) {
  return std::any_of(tails.begin(), tails.end(), [&](std::string_view tail) { return path.ends_with(tail); });
}

// Each returns why it failed, or empty.
std::string read_file(const std::string& path, std::string* bytes);
// Through a temporary file beside it and rename: a reader sees the old file or the new one. mode 0 keeps 0644.
std::string write_file(const std::string& path, std::string_view bytes, unsigned mode = 0);

struct Entry {
  enum Kind { kFile, kFolder, kLink, kOther };
  Kind kind = kFile;
  std::string path;  // relative to the root, '/' between
  unsigned mode = 0644;
  std::string target;  // of a link
};

// Everything below root in sorted order; links are entries, never followed. Folders in `skip` (absolute paths) and
// .git, .hg, .svn, __pycache__ are left out. Problems are added to `errors`.
std::vector<Entry> walk(const std::string& root, const std::vector<std::string>& skip,
                        std::vector<std::string>* errors);

}  // namespace migrate
