// Text that names devices and backends: 'cuda:0', 'nccl', 'cpu:gloo,cuda:nccl', 'torch.cuda.FloatTensor'. Pure text, no
// tree: used for Python strings, configuration files and command lines alike.
#pragma once
#include <cctype>
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "migrate/src/rules.h"

namespace migrate {

// May the character be part of a name?
inline bool is_word(char c) { return isalnum(static_cast<unsigned char>(c)) || c == '_'; }

struct TextEdit {
  size_t at, length;
  std::string text;
};

// cuda, cuda:, cuda:N, cuda:{..}, cuda:%d, or one of them with a computed tail; also several with commas between.
bool is_device_text(std::string_view text);
// Has it an index, written or computed?
bool has_device_index(std::string_view text);
// nccl, NCCL, or a map such as cpu:gloo,cuda:nccl.
bool is_backend_text(std::string_view text);
// A dotted name in torch.cuda.
bool is_cuda_name(std::string_view text);

// What to change in such a text; empty if it is none of them or stays.
std::vector<TextEdit> device_edits(std::string_view text);
std::vector<TextEdit> backend_edits(std::string_view text);
std::vector<TextEdit> name_edits(std::string_view text, const Rules& rules);
// Every torch.cuda name and .cuda( call inside a piece of code.
std::vector<TextEdit> code_edits(std::string_view text, const Rules& rules);

// CUDA_*, NCCL_*: the variable of the same purpose, or what to do; empty if the text is no such variable.
std::string environment_advice(std::string_view text);
// The counterpart's name, or empty.
std::string_view environment_counterpart(std::string_view name);

std::string apply_text_edits(std::string_view text, const std::vector<TextEdit>& edits);

}  // namespace migrate
