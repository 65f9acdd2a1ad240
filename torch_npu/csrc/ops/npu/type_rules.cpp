// See type_rules.h.
#include "csrc/ops/npu/type_rules.h"

#include <array>
#include <sstream>
#include <string>
#include <string_view>

#include "csrc/core/type_name.h"
#include "csrc/ops/aclnn_call.h"

namespace npu::ops {
namespace {

struct Rule {
  uint64_t accepts = 0;
  char group = 0;
  bool starred = false, list = false;
};

int digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

Rule next_rule(const char*& at) {
  Rule rule;
  for (; digit(*at) >= 0; ++at) rule.accepts = rule.accepts * 16 + static_cast<uint64_t>(digit(*at));
  rule.list = *at == '+';
  at += rule.list;
  if (*at == ' ') {
    rule.group = *++at;
    rule.starred = *++at == '*';
    at += rule.starred;
  }
  ++at;  // ';' or the line's end
  return rule;
}

// Two in a byte, which tensors have as PyTorch's types alone.
int64_t bit_of(at::ScalarType type) {
  if (type == at::ScalarType::Float4_e2m1fn_x2) return ACL_FLOAT4_E2M1;
  if (type == at::ScalarType::Bits4x2) return ACL_FLOAT4_E1M2;
  return acl_dtype(type);
}

std::string listed_types(uint64_t accepts) {
  constexpr std::array kTypes = {// as many as ops/types.yaml has: tests/tools/test_npu_types.py
                                 at::kFloat,
                                 at::kHalf,
                                 at::kBFloat16,
                                 at::kDouble,
                                 at::kChar,
                                 at::kByte,
                                 at::kShort,
                                 at::kInt,
                                 at::kLong,
                                 at::kUInt16,
                                 at::kUInt32,
                                 at::kUInt64,
                                 at::kBool,
                                 at::kComplexHalf,
                                 at::kComplexFloat,
                                 at::kComplexDouble,
                                 at::kFloat8_e5m2,
                                 at::kFloat8_e4m3fn,
                                 at::kFloat8_e8m0fnu,
                                 at::ScalarType::Bits8,  // hifloat8
                                 at::ScalarType::Float4_e2m1fn_x2,
                                 at::ScalarType::Bits4x2};
  std::ostringstream text;
  for (const at::ScalarType type : kTypes) {
    if (!(accepts >> bit_of(type) & 1)) continue;
    text << (text.tellp() > 0 ? " or " : "") << type_name(type);
  }
  return text.str();
}

bool half(at::ScalarType type) { return type == at::kHalf || type == at::kBFloat16; }

class Typing {
 public:
  Typing(const char* op, std::string_view names, const Operand* operands)
      : op_(op), names_(names), operands_(operands) {}

  void check(size_t i, const Rule& rule) {
    const at::TensorList tensors = operands_[i].tensors();
    for (size_t k = 0; k < tensors.size(); ++k) {
      const at::Tensor& t = tensors[k];
      // An empty tensor in a list stands for none.
      if (!t.defined() || (rule.list && !holds_elements(t))) continue;
      TORCH_CHECK(rule.accepts >> bit_of(t.scalar_type()) & 1, op_, ": ", name_of(names_, i), " must be ",
                  listed_types(rule.accepts), ", got ", type_name(t));
      if (rule.group) belongs(i, k, t, rule);
    }
  }

 private:
  void belongs(size_t i, size_t k, const at::Tensor& t, const Rule& rule) {
    size_t& first = first_[static_cast<size_t>(rule.group - 'a')];
    if (first == kNone) first = i;
    const at::TensorList others = operands_[first].tensors();
    if (k >= others.size() || !others[k].defined()) return;
    const at::ScalarType wanted = others[k].scalar_type(), type = t.scalar_type();
    TORCH_CHECK(type == wanted || (rule.starred && type == at::kFloat && half(wanted)), op_, ": ",
                name_of(names_, first), " (", type_name(wanted), ") and ", name_of(names_, i), " (", type_name(type),
                ") must have one type", rule.starred && half(wanted) ? ", or the second torch.float32" : "");
  }

  static constexpr size_t kNone = SIZE_MAX;
  const char* op_;
  std::string_view names_;
  const Operand* operands_;
  std::array<size_t, 4> first_ = {kNone, kNone, kNone, kNone};  // of each group the first operand
};

}  // namespace

bool holds_elements(const at::Tensor& result) {
  return result.defined() && TORCH_GUARD_OR_TRUE(result.sym_numel().sym_ne(0));
}

void check_types(const char* op, const char* rules, std::initializer_list<Operand> operands) {
  const std::string_view names = std::string_view(rules).substr(std::string_view(rules).find('\n') + 1);
  Typing typing(op, names, operands.begin());
  for (size_t i = 0; i < operands.size(); ++i) typing.check(i, next_rule(rules));
}

}  // namespace npu::ops
