// See size_rules.h. A rule is read from left to right, its letters take the sizes that they meet first.
#include "csrc/ops/npu/size_rules.h"

#include <c10/util/Exception.h>
#include <c10/util/accumulate.h>

#include <array>
#include <cstring>
#include <sstream>

namespace npu::ops {
namespace {

bool digit(char c) { return c >= '0' && c <= '9'; }
bool letter(char c) { return c >= 'A' && c <= 'Z'; }
bool ends(char c) { return c == '|' || c == ';' || c == '\n' || c == '\0'; }

const char* behind(const char* at, char c) {  // or the end of the rules
  while (*at != c && *at != '\n' && *at != '\0') ++at;
  return *at == c ? at + 1 : at;
}

class Sizing {
 public:
  void bind(char name, const c10::SymInt& value) {
    values_[name - 'A'] = value;
    bound_ |= 1U << (name - 'A');
  }

  // Whether the sizes are those of the rule, or of one of its alternatives. If not, no letter has taken a size of the tensor.
  bool takes(const char* at, const at::Tensor& t) {
    const uint32_t bound = bound_;
    const bool led = led_;
    for (;; ++at) {
      if (*at == '#' ? product(++at, t.sym_numel()) : dims(at, t.sym_sizes())) return true;
      bound_ = bound;
      led_ = led;
      while (!ends(*at)) ++at;
      if (*at != '|') return false;
    }
  }

  std::string wanted(const char* at) const {
    std::ostringstream text;
    for (bool first = true;; ++at, first = false) {
      const bool elements = *at == '#';
      const char* start = at + elements;
      while (!ends(*at)) ++at;
      const std::string names = spelt(start, at, false), numbers = spelt(start, at, true);
      text << (first ? "" : " or ") << (elements ? "" : "the sizes [") << names << (elements ? "" : "]");
      if (numbers != names) text << " = " << (elements ? "" : "[") << numbers << (elements ? "" : "]");
      if (elements) text << " elements";
      if (*at != '|') return text.str();
    }
  }

 private:
  bool known(char name) const { return (bound_ >> (name - 'A') & 1U) != 0; }
  static bool equal(const c10::SymInt& a, const c10::SymInt& b) { return a.sym_eq(b).guard_bool(__FILE__, __LINE__); }

  // A product of letters and numbers; one letter may be new and takes what is left of the size.
  bool product(const char*& at, const c10::SymInt& size) {
    c10::SymInt all = 1;
    char open = 0;
    for (;; ++at) {
      c10::SymInt factor = 1;
      if (digit(*at)) {
        int64_t number = 0;
        for (; digit(*at); ++at) number = number * 10 + (*at - '0');
        factor = number;
      } else if (known(*at)) {
        factor = values_[*at++ - 'A'];
      } else {
        open = *at++;
      }
      all = all * factor;
      if (*at != '*') break;
    }
    if (open == 0) return equal(size, all);
    if (!equal(all, 1)) {
      if (equal(all, 0) || !equal(size % all, 0)) return false;
      all = size / all;
    } else {
      all = size;
    }
    bind(open, all);
    return true;
  }

  // One dimension, or one of those that it may be; then `at` is behind it.
  bool dim(const char*& at, const c10::SymInt& size) {
    bool found = *at == '_' || product(at, size);
    for (; !found && *at == '/';) found = product(++at, size);
    while (*at != ' ' && !ends(*at)) ++at;
    if (*at == ' ') ++at;
    return found;
  }

  bool dims(const char*& at, c10::SymIntArrayRef sizes) {
    size_t d = 0;
    if (*at == '.') {
      size_t more = 0;
      for (const char* c = at; !ends(*c); ++c) more += *c == ' ';
      if (sizes.size() < more) return false;
      const c10::SymIntArrayRef leading = sizes.slice(0, sizes.size() - more);
      if (led_ && leading.size() != leading_.size()) return false;
      for (; led_ && d < leading.size(); ++d) {
        if (!equal(leading[d], leading_[d])) return false;
      }
      leading_ = leading;
      led_ = true;
      d = leading.size();
      at += more > 0 ? 2 : 1;
    }
    for (; !ends(*at); ++d) {
      if (d == sizes.size() || !dim(at, sizes[d])) return false;
    }
    return d == sizes.size();
  }

  std::string spelt(const char* at, const char* end, bool numbers) const {
    std::ostringstream text;
    for (; at != end; ++at) {
      if (*at == '.' && numbers && led_) {
        for (size_t d = 0; d < leading_.size(); ++d) text << (d == 0 ? "" : ", ") << leading_[d];
        if (leading_.empty() && at[1] == ' ') ++at;
      } else if (numbers && letter(*at) && known(*at)) {
        text << values_[*at - 'A'];
      } else {
        text << (*at == ' ' ? ", " : *at == '*' ? " * " : *at == '/' ? " or " : *at == '.' ? "..." : "");
        if (digit(*at) || letter(*at) || *at == '_') text << *at;
      }
    }
    return text.str();
  }

  std::array<c10::SymInt, 26> values_;
  uint32_t bound_ = 0;
  c10::SymIntArrayRef leading_;  // of `...`, of an operand that the caller holds
  bool led_ = false;
};

[[noreturn, gnu::noinline]] void refuse(const char* op, const char* rules, const char* at, size_t index,
                                        const Sizing& sizing, const at::Tensor& t) {
  const char* name = std::strchr(rules, '\n') + 1;
  for (; index > 0; --index) name = std::strchr(name, ',') + 1;
  TORCH_CHECK(false, op, ": ", std::string(name, std::strcspn(name, ",")), " must have ", sizing.wanted(at),
              ", it has ", t.sym_sizes());
}

}  // namespace

void check_sizes(const char* op, const char* rules, std::initializer_list<Operand> operands,
                 std::initializer_list<c10::SymInt> numbers) {
  Sizing sizing;
  const char* at = rules;
  for (const c10::SymInt& number : numbers) sizing.bind(*at++, number);
  if (numbers.size() != 0) ++at;
  size_t index = 0;
  for (const Operand& operand : operands) {
    const at::Tensor* tensor = operand.given();
    if (tensor != nullptr && !sizing.takes(at, *tensor)) refuse(op, rules, at, index, sizing, *tensor);
    at = behind(at, ';');
    ++index;
  }
}

c10::SymInt norm_rows(const at::Tensor& x, const at::Tensor& gamma) {
  return c10::multiply_integers(x.sym_sizes().slice(0, x.dim() - gamma.dim()));
}

void check_cache_columns(const char* op, std::string_view mode, const c10::SymInt& columns, at::IntArrayRef heads,
                         const at::Tensor& key, const at::Tensor& value) {
  const int64_t dim = mode == "PA_NZ" ? 1 : 2;
  for (const at::Tensor* cache : {&key, &value}) {
    const c10::SymInt wanted = columns * heads[cache == &key ? 1 : 2];
    const c10::SymInt has = cache->dim() == 4 ? cache->sym_size(dim) * cache->sym_size(3) : c10::SymInt(-1);
    TORCH_SYM_CHECK(has.sym_eq(wanted), op, ": ", cache == &key ? "k_cache" : "v_cache", " must have four dimensions, ",
                    wanted, " columns in dimensions ", dim, " and 3, it has ", cache->sym_sizes());
  }
}

}  // namespace npu::ops
