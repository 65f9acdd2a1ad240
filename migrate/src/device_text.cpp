// See device_text.h.
#include "migrate/src/device_text.h"

#include <algorithm>
#include <array>

#include "migrate/src/template.h"

namespace migrate {
namespace {

// Parts between commas, without the blanks around them.
std::vector<std::pair<size_t, std::string_view>> split(std::string_view text) {
  std::vector<std::pair<size_t, std::string_view>> parts;
  for (size_t at = 0; at <= text.size();) {
    size_t comma = std::min(text.find(',', at), text.size());
    size_t from = at, to = comma;
    while (parts.size() && from < to && text[from] == ' ') ++from;
    while (comma < text.size() && to > from && text[to - 1] == ' ') --to;
    parts.push_back({from, text.substr(from, to - from)});
    at = comma + 1;
  }
  return parts;
}

// The device in "--device=cuda:0", or the whole text.
size_t option_value(std::string_view text) {
  size_t equals = text.find('=');
  if (!text.starts_with('-') || equals == std::string_view::npos) return 0;
  for (char c : text.substr(1, equals - 1))
    if (!is_word(c) && c != '-') return 0;
  return equals + 1;
}

bool is_one_device(std::string_view text) {
  if (!text.starts_with("cuda")) return false;
  std::string_view rest = text.substr(4);
  if (rest.empty()) return true;
  if (rest.size() == 1 && rest[0] == kHole) return true;  // 'cuda' + something (f'cuda{i}' is refused by the caller)
  if (rest[0] != ':') return false;
  rest.remove_prefix(1);
  if (rest.empty()) return true;
  if (std::all_of(rest.begin(), rest.end(), [](char c) { return isdigit(static_cast<unsigned char>(c)); })) return true;
  if (rest.size() == 1 && rest[0] == kHole) return true;
  if (rest[0] == '{' && rest.back() == '}' && rest.find('{', 1) == std::string_view::npos) return true;
  return rest.size() >= 2 && rest[0] == '%' &&
         (rest.back() == 'd' || rest.back() == 's' || rest.back() == 'i' || rest.back() == 'r') &&
         rest.find(' ') == std::string_view::npos;
}

constexpr std::string_view kBackends[] = {"nccl", "gloo", "mpi", "ucc",  "hccl", "NCCL",
                                          "GLOO", "MPI",  "UCC", "fake", "xccl"};

bool is_backend_name(std::string_view name) {
  return std::find(std::begin(kBackends), std::end(kBackends), name) != std::end(kBackends);
}

struct Variable {
  std::string_view name, counterpart, advice;
};
constexpr Variable kVariables[] = {
    {"CUDA_VISIBLE_DEVICES", "ASCEND_RT_VISIBLE_DEVICES", ""},
    {"CUDA_LAUNCH_BLOCKING", "ASCEND_LAUNCH_BLOCKING", ""},
    {"PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_NPU_ALLOC_CONF", ""},
    {"NCCL_SOCKET_IFNAME", "HCCL_SOCKET_IFNAME", ""},
    {"NCCL_IB_TC", "HCCL_RDMA_TC", ""},
    {"NCCL_IB_SL", "HCCL_RDMA_SL", ""},
    {"NCCL_IB_TIMEOUT", "HCCL_RDMA_TIMEOUT", ""},
    {"NCCL_IB_RETRY_CNT", "HCCL_RDMA_RETRY_CNT", ""},
    {"NCCL_BUFFSIZE", "HCCL_BUFFSIZE", "its value is in MB"},
    {"NCCL_DEBUG", "", "set ASCEND_GLOBAL_LOG_LEVEL and ASCEND_SLOG_PRINT_TO_STDOUT"},
    {"NCCL_TIMEOUT", "", "set HCCL_EXEC_TIMEOUT (seconds)"},
    {"NCCL_BLOCKING_WAIT", "", "errors of collectives are raised; set HCCL_EXEC_TIMEOUT"},
    {"NCCL_ASYNC_ERROR_HANDLING", "", "set HCCL_ASYNC_ERROR_HANDLING"},
    {"TORCH_NCCL_ASYNC_ERROR_HANDLING", "", "set HCCL_ASYNC_ERROR_HANDLING"},
    {"TORCH_NCCL_BLOCKING_WAIT", "", "errors of collectives are raised; set HCCL_EXEC_TIMEOUT"},
    {"TORCH_CUDA_ARCH_LIST", "", "no effect on an NPU: CUDA extensions must be ported"},
    {"CUBLAS_WORKSPACE_CONFIG", "", "cuBLAS is not used; torch.use_deterministic_algorithms(True) is enough"},
    {"CUDA_DEVICE_ORDER", "", "no effect: NPUs are numbered by the driver"},
};

}  // namespace

bool is_device_text(std::string_view text) {
  text.remove_prefix(option_value(text));
  auto parts = split(text);
  return std::all_of(parts.begin(), parts.end(), [](auto& part) { return is_one_device(part.second); });
}

bool has_device_index(std::string_view text) {
  return text.size() > 5 && text[4] == ':' && text.find(',') == std::string_view::npos;
}

bool is_backend_text(std::string_view text) {
  if (text == "nccl" || text == "NCCL") return true;
  if (text.find(':') == std::string_view::npos) return false;
  bool ours = false;
  for (auto& [at, part] : split(text)) {
    size_t colon = part.find(':');
    if (colon == std::string_view::npos || colon == 0 || !is_backend_name(part.substr(colon + 1))) return false;
    if (!std::all_of(part.begin(), part.begin() + colon, is_word)) return false;
    ours = ours || part.substr(0, colon) == "cuda" || part.ends_with("nccl");
  }
  return ours;
}

bool is_cuda_name(std::string_view text) {
  if (!text.starts_with("torch.cuda")) return false;
  bool word = true;
  for (char c : text) {
    if (!is_word(c) && !(c == '.' && word)) return false;
    word = c != '.';
  }
  return word && (text.size() == 10 || text[10] == '.');
}

std::vector<TextEdit> device_edits(std::string_view text) {
  std::vector<TextEdit> edits;
  if (!is_device_text(text)) return edits;
  size_t value = option_value(text);
  for (auto& [at, part] : split(text.substr(value))) edits.push_back({value + at, 4, "npu"});
  return edits;
}

std::vector<TextEdit> backend_edits(std::string_view text) {
  std::vector<TextEdit> edits;
  if (!is_backend_text(text)) return edits;
  if (text.find(':') == std::string_view::npos) return {{0, 4, text[0] == 'N' ? "HCCL" : "hccl"}};
  for (auto& [at, part] : split(text)) {
    size_t colon = part.find(':');
    if (part.substr(0, colon) == "cuda") edits.push_back({at, 4, "npu"});
    if (part.substr(colon + 1) == "nccl") edits.push_back({at + colon + 1, 4, "hccl"});
  }
  return edits;
}

std::vector<TextEdit> name_edits(std::string_view text, const Rules& rules) {
  if (!is_cuda_name(text)) return {};
  CudaName name = rules.cuda_name(text.size() > 11 ? text.substr(11) : std::string_view());
  if (name.status == CudaName::kNone || name.status == CudaName::kShared) return {};
  if (name.status == CudaName::kRenamed) return {{0, text.size(), "torch.npu." + name.target}};
  return {{6, 4, "npu"}};
}

std::vector<TextEdit> code_edits(std::string_view text, const Rules& rules) {
  std::vector<TextEdit> edits;
  for (size_t at = 0; (at = text.find("cuda", at)) != std::string_view::npos; at += 4) {
    if (at + 4 < text.size() && is_word(text[at + 4])) continue;
    if (at >= 6 && text.substr(at - 6, 6) == "torch." && (at == 6 || !is_word(text[at - 7]))) {
      size_t end = at + 4;
      while (end < text.size() && (is_word(text[end]) || text[end] == '.')) ++end;
      while (text[end - 1] == '.') --end;
      for (TextEdit edit : name_edits(text.substr(at - 6, end - at + 6), rules)) {
        edit.at += at - 6;
        edits.push_back(edit);
      }
    } else if (at >= 2 && text[at - 1] == '.' && (is_word(text[at - 2]) || text[at - 2] == ')') &&
               at + 4 < text.size() && text[at + 4] == '(') {
      edits.push_back({at, 4, "npu"});
    }
  }
  return edits;
}

std::string environment_advice(std::string_view text) {
  for (const Variable& variable : kVariables) {
    if (text != variable.name) continue;
    if (variable.counterpart.empty()) return std::string(variable.advice);
    return "on an NPU: " + std::string(variable.counterpart) +
           (variable.advice.empty() ? "" : ", " + std::string(variable.advice));
  }
  static constexpr std::string_view kPrefixes[] = {"CUDA_",       "NCCL_",       "CUDNN_", "CUBLAS_",
                                                   "TORCH_NCCL_", "TORCH_CUDA_", "NVTE_",  "NVIDIA_"};
  for (std::string_view prefix : kPrefixes) {
    if (!text.starts_with(prefix) || text.size() == prefix.size()) continue;
    if (std::all_of(text.begin(), text.end(), [](char c) {
          return isupper(static_cast<unsigned char>(c)) || isdigit(static_cast<unsigned char>(c)) || c == '_';
        }))
      return "a variable of CUDA's libraries: no effect on an NPU";
  }
  return "";
}

std::string_view environment_counterpart(std::string_view name) {
  for (const Variable& variable : kVariables)
    if (name == variable.name) return variable.counterpart;
  return {};
}

std::string apply_text_edits(std::string_view text, const std::vector<TextEdit>& edits) {
  std::string out;
  size_t at = 0;
  for (const TextEdit& edit : edits) {
    out += text.substr(at, edit.at - at);
    out += edit.text;
    at = edit.at + edit.length;
  }
  out += text.substr(at);
  return out;
}

}  // namespace migrate
