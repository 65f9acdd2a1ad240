// See rules.h. Tables are read from the embedded files once; a Rules is then only read, by all threads.
#include "migrate/src/rules.h"

#include <algorithm>

#include "migrate/src/embedded.h"
#include "migrate/src/files.h"
#include "migrate/src/json.h"
#include "migrate/src/names.h"

namespace migrate {
namespace {

template <class F>
void each_row(std::string_view text, F&& use) {
  while (!text.empty()) {
    size_t end = text.find('\n');
    std::string_view line = text.substr(0, end);
    text = end == std::string_view::npos ? std::string_view() : text.substr(end + 1);
    if (line.empty()) continue;
    std::vector<std::string_view> cells;
    for (size_t at = 0; at <= line.size();) {
      size_t tab = std::min(line.find('\t', at), line.size());
      cells.push_back(line.substr(at, tab - at));
      at = tab + 1;
    }
    use(cells);
  }
}

Advice::Category category_of(std::string_view name) {
  if (name == "performance") return Advice::kPerformance;
  if (name == "precision") return Advice::kPrecision;
  if (name == "cudaop") return Advice::kCudaOp;
  if (name == "unsupported") return Advice::kUnsupported;
  return Advice::kNotice;
}

}  // namespace

int version_number(std::string_view version) {
  int major = 0, minor = 0;
  size_t at = 0;
  auto number = [&](int* out) {
    size_t start = at;
    for (; at < version.size() && isdigit(static_cast<unsigned char>(version[at])) && at - start < 4; ++at)
      *out = *out * 10 + (version[at] - '0');
    return at > start;
  };
  if (!number(&major)) return 0;
  if (at < version.size() && version[at] == '.' && !number(&(++at, minor))) return 0;
  return major * 1000 + minor;
}

Rules::Rules() {
  each_row(embedded("data/cuda_names.tsv"), [&](auto& cells) { cuda_names_[std::string(cells[0])] = cells[1]; });
  each_row(embedded("data/call_names.tsv"), [&](auto& cells) {
    std::string name(cells[0]);
    call_names_[name] = "torch_npu.npu" + name.substr(10);
  });
  each_row(embedded("data/moved_names.tsv"), [&](auto& cells) { moved_[std::string(cells[0])] = cells[1]; });
  each_row(embedded("data/advice.tsv"),
           [&](auto& cells) { advice_[std::string(cells[1])] = {category_of(cells[0]), std::string(cells[2])}; });
  each_row(embedded("data/packages.tsv"),
           [&](auto& cells) { packages_[std::string(cells[0])] = {Advice::kThirdParty, std::string(cells[1])}; });
  bool header = true;
  each_row(embedded("data/support.tsv"), [&](auto& cells) {
    if (header) {
      for (size_t i = 1; i < cells.size(); ++i) versions_.emplace_back(cells[i]);
      header = false;
      return;
    }
    std::vector<char>& marks = support_[std::string(cells[0])];
    for (size_t i = 1; i < cells.size(); ++i) marks.push_back(cells[i].empty() ? '?' : cells[i][0]);
  });
  foreign_ = {"cupy",   "cupyx",    "numba", "pycuda", "jax",     "jaxlib", "tensorflow", "paddle",
              "mxnet",  "cudf",     "cuml",  "cuda",   "chainer", "pynvml", "tvm",        "onnxruntime",
              "nvidia", "tensorrt", "warp",  "taichi", "triton",  "theano"};
  plain_ = {"argparse", "os", "pathlib", "numpy", "pandas", "sklearn", "cv2", "faiss", "json", "yaml", "sys"};
}

CudaName Rules::cuda_name(std::string_view name) const {
  if (name.empty()) return {CudaName::kSame, ""};
  // The longest listed prefix decides: "amp" covers "amp.autocast", "nvtx.range" does not follow "nvtx".
  std::string at(name);
  while (true) {
    auto found = cuda_names_.find(at);
    if (found != cuda_names_.end()) {
      if (found->second == "-") return {CudaName::kNone, ""};
      if (found->second == ".") return {CudaName::kShared, std::string(name)};
      if (found->second == "=") return {CudaName::kSame, std::string(name)};
      return {CudaName::kRenamed, found->second + std::string(name.substr(at.size()))};
    }
    size_t dot = at.rfind('.');
    if (dot == std::string::npos) return {CudaName::kUnknown, std::string(name)};
    at.resize(dot);
  }
}

std::string_view Rules::call_name(std::string_view path) const {
  auto found = call_names_.find(std::string(path));
  return found == call_names_.end() ? std::string_view() : found->second;
}

std::string Rules::moved_name(std::string_view path) const {
  std::string at(path);
  while (true) {
    auto found = moved_.find(at);
    if (found != moved_.end()) return found->second + std::string(path.substr(at.size()));
    size_t dot = at.rfind('.');
    if (dot == std::string::npos) return "";
    at.resize(dot);
  }
}

bool Rules::foreign_device(std::string_view path) const {
  return std::find(foreign_.begin(), foreign_.end(), root_package(path)) != foreign_.end();
}

bool Rules::foreign(std::string_view path) const {
  return foreign_device(path) || std::find(plain_.begin(), plain_.end(), root_package(path)) != plain_.end();
}

Support Rules::support(std::string_view api, std::string_view version) const {
  auto found = support_.find(std::string(api));
  if (found == support_.end()) return Support::kUnlisted;
  int wanted = version_number(version);
  size_t column = 0;  // older than all: the oldest list
  for (size_t i = 0; i < versions_.size(); ++i)
    if (version_number(versions_[i]) <= wanted) column = i;
  switch (found->second[column]) {
    case 'S':
      return Support::kYes;
    case 'L':
      return Support::kLimits;
    case 'U':
      return Support::kNo;
    case '-':
      return Support::kAbsent;
    default:
      return Support::kDoubt;
  }
}

const Advice* Rules::advice(std::string_view path) const {
  std::string at(path);
  while (true) {
    auto found = advice_.find(at);
    if (found != advice_.end()) {
      // Below a name only where the name is a module of switches, not for methods of an object.
      bool exact = at.size() == path.size();
      if (exact || found->second.category == Advice::kNotice || found->second.category == Advice::kUnsupported)
        return &found->second;
      return nullptr;
    }
    size_t dot = at.rfind('.');
    if (dot == std::string::npos) return nullptr;
    at.resize(dot);
  }
}

const Advice* Rules::third_party(std::string_view package) const {
  auto found = packages_.find(std::string(package));
  return found == packages_.end() ? nullptr : &found->second;
}

const std::string* Rules::user_string(std::string_view content) const {
  if (user_strings_.empty()) return nullptr;
  auto found = user_strings_.find(std::string(content));
  return found == user_strings_.end() ? nullptr : &found->second;
}

std::string Rules::load(const std::string& path) {
  std::string bytes;
  if (std::string why = read_file(path, &bytes); !why.empty()) return path + ": " + why;
  std::string error;
  std::optional<Json> json = Json::parse(bytes, &error);
  if (!json) return path + ": " + error;
  if (!json->is_object()) return path + ": an object with names, strings, keep or advice is expected";
  auto text_map = [&](const Json& value, auto&& use) {
    if (!value.is_object()) return false;
    for (const auto& [key, entry] : value.object()) {
      if (!entry.is_string()) return false;
      use(key, entry.string());
    }
    return true;
  };
  for (const auto& [key, value] : json->object()) {
    bool good = true;
    if (key == "names") {
      good = text_map(value, [&](const std::string& from, const std::string& to) { moved_[from] = to; });
    } else if (key == "strings") {
      good = text_map(value, [&](const std::string& from, const std::string& to) { user_strings_[from] = to; });
    } else if (key == "unsupported") {
      good = text_map(
          value, [&](const std::string& api, const std::string& tips) { advice_[api] = {Advice::kUnsupported, tips}; });
    } else if (key == "foreign") {
      good = value.is_array();
      for (const Json& entry : good ? value.array() : std::vector<Json>{}) {
        if (!entry.is_string())
          good = false;
        else
          foreign_.push_back(entry.string());
      }
    } else {
      return path + ": unknown key \"" + key + "\" (names, strings, unsupported, foreign)";
    }
    if (!good) return path + ": \"" + key + "\" has the wrong form";
  }
  return "";
}

}  // namespace migrate
