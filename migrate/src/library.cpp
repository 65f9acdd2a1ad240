// See library.h.
#include "migrate/src/library.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <string>

#include "migrate/src/project.h"
#include "migrate/src/rewriter.h"

namespace migrate {
namespace {

// A statement put on a line of its own goes before the next one instead; a removed line leaves an empty one.
std::vector<Edit> on_the_same_lines(const std::string& original, std::vector<Edit> edits) {
  for (Edit& edit : edits) {
    if (edit.start == edit.end) {
      size_t newline = edit.text.find_last_not_of(" \t\f");
      if (newline == std::string::npos || (edit.text[newline] != '\n' && edit.text[newline] != '\r')) continue;
      size_t end = edit.text.find_last_not_of(" \t\f\r\n");
      edit.text = edit.text.substr(0, end + 1) + "; ";
    } else if (edit.text.empty()) {
      edit.text.assign(std::count(original.begin() + edit.start, original.begin() + edit.end, '\n'), '\n');
    }
  }
  return edits;
}

std::string rewritten(const char* bytes, size_t size, const char* path) {
  static const Rules rules;
  Settings settings;
  settings.rules = &rules;
  Project alone("", {});
  FileResult result = rewrite_python(std::string(bytes, size), path, settings, &alone);
  if (!result.changed) return "";
  return edited(result.original, on_the_same_lines(result.original, result.edits));
}

}  // namespace
}  // namespace migrate

char* pytorch_gpu2npu_rewrite(const char* bytes, size_t size, const char* path, size_t* rewritten_size) {
  try {
    std::string text = migrate::rewritten(bytes, size, path);
    char* copy = text.empty() ? nullptr : static_cast<char*>(std::malloc(text.size()));
    if (copy) std::memcpy(copy, text.data(), text.size());
    *rewritten_size = text.size();
    return copy;
  } catch (const std::exception&) {  // a defect of the rewriter must not cost the import: the text stays as it is
    *rewritten_size = 0;
    return nullptr;
  }
}

void pytorch_gpu2npu_free(char* text) { std::free(text); }
