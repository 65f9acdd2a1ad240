// See dispatch.h.
#include "csrc/ops/npu/dispatch.h"

#include <algorithm>
#include <cctype>
#include <string>
#include <typeinfo>

namespace npu::ops {
namespace {

bool in_word(char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_'; }

bool has_word(std::string_view text, std::string_view word) {
  for (size_t at = text.find(word); at != text.npos; at = text.find(word, at + 1)) {
    const size_t end = at + word.size();
    if ((at == 0 || !in_word(text[at - 1])) && (end == text.size() || !in_word(text[end]))) return true;
  }
  return false;
}

// CANN's scaleOptional is PyTorch's scale, its selfRef self.
std::string plain(std::string_view name) {
  std::string found;
  for (const char c : name) {
    if (c != '_') found += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  }
  for (const std::string_view end : {"optional", "ref"}) {
    if (found.size() > end.size() && found.ends_with(end)) return found.substr(0, found.size() - end.size());
  }
  return found;
}

// The argument behind "parameter x" of a message, or nothing.
std::string_view argument_in(std::string_view text, std::string_view names) {
  constexpr std::string_view kBefore = ": parameter ";
  const size_t at = text.find(kBefore);
  if (at == text.npos) return {};
  std::string_view word = text.substr(at + kBefore.size());
  word = word.substr(0, word.find(' '));
  const std::string wanted = plain(word);
  while (!names.empty()) {
    const std::string_view entry = names.substr(0, names.find(','));
    names.remove_prefix(std::min(names.size(), entry.size() + 1));
    const size_t equal = entry.find('=');
    if (plain(entry.substr(0, equal)) == wanted) return equal == entry.npos ? entry : entry.substr(equal + 1);
  }
  return {};
}

// Checks that several operators share begin with their family, which gives way to the operator's name.
std::string_view without_family(std::string_view text) {
  for (const std::string_view family : {"attention: ", "rotary: "}) {
    if (text.starts_with(family)) return text.substr(family.size());
  }
  return text;
}

// The same error with another text; PyTorch's own contexts, which stand behind a text, are kept in it.
template <class... Types>
void throw_again(const c10::Error& error, const std::string& text) {
  const auto as = [&]<class Type>(Type*) {
    if (typeid(error) == typeid(Type)) throw Type(text, error.backtrace());
  };
  (as(static_cast<Types*>(nullptr)), ...);
}

}  // namespace

void rethrow_named(c10::Error& error, std::string_view op, std::string_view names) {
  const bool of_others = dynamic_cast<c10::AcceleratorError*>(&error) || dynamic_cast<c10::OutOfMemoryError*>(&error);
  const std::string_view text = error.what_without_backtrace();
  if (of_others || has_word(text, op)) throw;
  const std::string_view argument = argument_in(text, names);
  const std::string named = c10::str(op, argument.empty() ? "" : ": argument ", argument);
  throw_again<c10::Error, c10::NotImplementedError, c10::ValueError, c10::IndexError, c10::TypeError, c10::LinAlgError>(
      error, c10::str(named, ": ", without_family(text)));
  error.add_context(named);  // of a type that is not known here
  throw;
}

void refuse_cpu(const c10::OperatorHandle& op, torch::jit::Stack*) {
  std::string name = op.schema().name();
  name.replace(name.find("::"), 2, ".");
  TORCH_CHECK_NOT_IMPLEMENTED(false, "torch.ops.", name,
                              " runs on the npu only, and its tensors are on the CPU: move them with .npu()");
}

void refuse_no_tensors(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  std::string name = op.schema().name(), lists;
  name.replace(name.find("::"), 2, ".");
  const auto& arguments = op.schema().arguments();
  for (size_t i = 0; i < arguments.size(); ++i) {
    const c10::IValue& value = stack->at(stack->size() - arguments.size() + i);
    const bool some =
        value.isTensor() ? value.toTensor().defined() : value.isTensorList() && !value.toListRef().empty();
    TORCH_CHECK_NOT_IMPLEMENTED(!some, "torch.ops.", name, " takes dense tensors on the npu, and ", arguments[i].name(),
                                " is no such");
    if (value.isTensorList()) lists += (lists.empty() ? "" : " and ") + arguments[i].name();
  }
  TORCH_CHECK_VALUE(false, "torch.ops.", name, ": no tensor in ", lists, "; give at least one");
}

}  // namespace npu::ops
