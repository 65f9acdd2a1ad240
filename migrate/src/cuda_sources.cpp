// See cuda_sources.h. A text scan: kernels by __global__, functions bound to Python by .def("name" in files about CUDA.
#include "migrate/src/cuda_sources.h"

#include <algorithm>

#include "migrate/src/device_text.h"

namespace migrate {
namespace {

// The name before the first parenthesis after `at`, past __launch_bounds__(...).
std::string kernel_name(std::string_view text, size_t at) {
  size_t open = text.find('(', at);
  if (open == std::string_view::npos || open - at > 600) return "";
  size_t end = open;
  while (end > at && isspace(static_cast<unsigned char>(text[end - 1]))) --end;
  size_t start = end;
  while (start > at && is_word(text[start - 1])) --start;
  std::string name(text.substr(start, end - start));
  if (name != "__launch_bounds__") return name;
  int depth = 0;
  for (size_t i = open; i < text.size() && i - open < 400; ++i) {
    depth += text[i] == '(' ? 1 : text[i] == ')' ? -1 : 0;
    if (depth == 0) return kernel_name(text, i + 1);
  }
  return "";
}

}  // namespace

bool is_cuda_source(const std::string& path) {
  for (const char* tail : {".cu", ".cuh", ".cpp", ".cc", ".cxx"})
    if (path.ends_with(tail)) return true;
  return false;
}

FileResult scan_cuda_source(std::string bytes, const std::string& path) {
  FileResult result;
  result.path = path;
  result.original = std::move(bytes);
  std::string_view text = result.original;
  bool cuda = path.ends_with(".cu") || path.ends_with(".cuh");
  if (!cuda && text.find("cuda") == std::string_view::npos && text.find("CUDA") == std::string_view::npos)
    return result;
  Source source{std::string(text)};
  auto add = [&](size_t at, const std::string& name, const char* tips) {
    if (name.empty()) return;
    int line = source.line_of(static_cast<uint32_t>(at));
    result.findings.push_back({Finding::kCudaOp, line, line, name, tips});
  };
  for (size_t at = 0; (at = text.find("__global__", at)) != std::string_view::npos; at += 10)
    add(at, kernel_name(text, at + 10), "a CUDA kernel: must be written for the NPU or replaced");
  for (size_t at = 0; (at = text.find(".def(\"", at)) != std::string_view::npos; at += 6) {
    size_t end = text.find_first_of("\"(", at + 6);
    if (end != std::string_view::npos && end - at < 200)
      add(at, std::string(text.substr(at + 6, end - at - 6)),
          "a function of a CUDA extension: must be ported or replaced");
  }
  return result;
}

}  // namespace migrate
