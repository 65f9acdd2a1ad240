// Phase one's checks of recurrent networks: their kernels go through memory by address, so every tensor must have exactly the
// sizes that the first ones imply. A refusal names the parameter, and of a list the member.
#include <algorithm>
#include <cstdio>
#include <cstring>
#include <initializer_list>
#include <string>

#include "softnpu/ops/op.h"

namespace softnpu::ops {

using namespace nnopbase;

const Arg& Plan::arg(const char* name) const {
  for (int i = 0; i < e_->nargs; i++) {
    if (std::strcmp(op_.types->params[i].name, name) == 0) return e_->args[i];
  }
  static const Arg none{Kind::kNull, false, false, 0, {}};
  return none;
}

namespace {

using Sizes = std::initializer_list<int64_t>;

std::string text_of(const int64_t* sizes, size_t count) {
  std::string text = "[";
  for (size_t i = 0; i < count; i++) text += (i ? ", " : "") + std::to_string(sizes[i]);
  return text + "]";
}

class Shapes {
 public:
  explicit Shapes(Plan& plan) : plan_(plan) {}

  const TensorCopy* tensor(const char* name) const {
    const Arg& a = plan_.arg(name);
    return a.kind == Kind::kTensor ? a.tensor : nullptr;
  }
  const TensorCopy* member(const char* name, uint32_t i) const {
    const Arg& a = plan_.arg(name);
    return a.kind == Kind::kTensors && i < a.count ? a.tensors[i] : nullptr;
  }
  int64_t number(const char* name) const { return plan_.arg(name).i; }
  bool given(const char* name) const { return tensor(name) != nullptr; }

  // A tensor of so many dimensions, and where its sizes are.
  bool dimensions(const std::string& name, const TensorCopy* t, int count) const {
    if (!t) return refuse(name, "is null", ACLNN_ERR_PARAM_NULLPTR);
    if (t->ndim == count) return true;
    return refuse(name, "has " + std::to_string(t->ndim) + " dimensions, not " + std::to_string(count));
  }
  bool sizes(const std::string& name, const TensorCopy* t, Sizes wanted) const {
    if (!t) return refuse(name, "is null", ACLNN_ERR_PARAM_NULLPTR);
    if (t->ndim == wanted.size() && std::equal(wanted.begin(), wanted.end(), t->sizes())) return true;
    return refuse(name,
                  "has sizes " + text_of(t->sizes(), t->ndim) + ", not " + text_of(wanted.begin(), wanted.size()));
  }
  bool one(const char* name, Sizes wanted) const { return sizes(name, tensor(name), wanted); }
  bool optional(const char* name, Sizes wanted) const { return !given(name) || one(name, wanted); }

  bool length(const char* name, int64_t wanted) const {
    const Arg& a = plan_.arg(name);
    const int64_t have = a.kind == Kind::kTensors ? a.count : 0;
    if (have == wanted) return true;
    return refuse(name, "has " + std::to_string(have) + " members, not " + std::to_string(wanted));
  }
  bool each(const char* name, int64_t count, Sizes wanted) const {
    if (!length(name, count)) return false;
    for (int64_t i = 0; i < count; i++) {
      if (!sizes(indexed(name, i), member(name, static_cast<uint32_t>(i)), wanted)) return false;
    }
    return true;
  }
  static std::string indexed(const char* name, int64_t i) { return std::string(name) + "[" + std::to_string(i) + "]"; }
  bool refuse(const std::string& name, const std::string& text, aclnnStatus status = ACLNN_ERR_PARAM_INVALID) const {
    return plan_.fail_parameter(status, name.c_str(), text.c_str());
  }

 private:
  Plan& plan_;
};

// Of an LSTM or a GRU: layers times directions, and the sizes of everything.
struct Network {
  int64_t gates, layers, ways, hidden, input, steps, batch;
  bool bias, batch_first;

  int64_t entries() const { return layers * ways; }
  int64_t each() const { return bias ? 4 : 2; }
};

bool read(const Shapes& s, int64_t gates, const char* ways, Network& n) {
  const TensorCopy* x = s.tensor("input");
  const TensorCopy* recurrent = s.member("params", 1);
  if (!s.dimensions("input", x, 3) || !s.dimensions("params[1]", recurrent, 2)) return false;
  n.gates = gates;
  n.layers = s.number("numLayers");
  n.ways = s.number(ways) ? 2 : 1;
  n.hidden = recurrent->sizes()[1];
  n.input = x->sizes()[2];
  n.bias = s.number("hasBias");
  n.batch_first = s.number("batchFirst");
  n.steps = x->sizes()[n.batch_first ? 1 : 0];
  n.batch = x->sizes()[n.batch_first ? 0 : 1];
  if (n.layers < 1 || n.layers > 1 << 20) return s.refuse("numLayers", "is not a number of layers");
  return true;
}

// Weights and biases, or their gradients, in PyTorch's order.
bool parameters(const Shapes& s, const char* name, const Network& n) {
  if (!s.length(name, n.entries() * n.each())) return false;
  const int64_t rows = n.gates * n.hidden;
  for (int64_t i = 0; i < n.entries() * n.each(); i++) {
    const int64_t columns = i % n.each() == 1 ? n.hidden : i / n.each() < n.ways ? n.input : n.hidden * n.ways;
    const TensorCopy* t = s.member(name, static_cast<uint32_t>(i));
    const std::string what = Shapes::indexed(name, i);
    if (!(i % n.each() < 2 ? s.sizes(what, t, {rows, columns}) : s.sizes(what, t, {rows}))) return false;
  }
  return true;
}

// The sequence that comes out, or its gradient.
bool sequence(const Shapes& s, const char* name, const Network& n) {
  return n.batch_first ? s.one(name, {n.batch, n.steps, n.ways * n.hidden})
                       : s.one(name, {n.steps, n.batch, n.ways * n.hidden});
}

bool steps(const Shapes& s, std::initializer_list<const char*> names, const Network& n) {
  for (const char* name : names) {
    if (!s.each(name, n.entries(), {n.steps, n.batch, n.hidden})) return false;
  }
  return true;
}

bool states(const Shapes& s, std::initializer_list<const char*> names, const Network& n) {
  for (const char* name : names) {
    if (!s.one(name, {n.entries(), n.batch, n.hidden})) return false;
  }
  return true;
}

}  // namespace

bool check_lstm(Plan& plan) {
  const Shapes s(plan);
  if (s.given("batchSizes") || s.given("batchSizesOptional")) return true;  // phase two refuses packed sequences
  Network n;
  if (!read(s, 4, "bidirectional", n) || !parameters(s, "params", n)) return false;
  if (!s.each("hx", 2, {n.entries(), n.batch, n.hidden})) return false;
  if (!s.given("dxOut")) {
    return (!s.given("output") || sequence(s, "output", n)) && states(s, {"hy", "cy"}, n) &&
           steps(s, {"iOut", "jOut", "fOut", "oOut", "hOut", "cOut", "tanhCOut"}, n);
  }
  const TensorCopy* x = s.tensor("input");
  return (!s.given("dy") || sequence(s, "dy", n)) && s.optional("dh", {n.entries(), n.batch, n.hidden}) &&
         s.optional("dc", {n.entries(), n.batch, n.hidden}) && steps(s, {"i", "g", "f", "o", "h", "c"}, n) &&
         s.one("dxOut", {x->sizes()[0], x->sizes()[1], n.input}) && states(s, {"dhPrevOut", "dcPrevOut"}, n) &&
         parameters(s, "dparamsOut", n);
}

bool check_gru(Plan& plan) {
  const Shapes s(plan);
  if (s.given("batchSizes")) return true;  // phase two refuses packed sequences
  Network n;
  if (!read(s, 3, "bidirection", n) || !parameters(s, "params", n)) return false;
  if (!s.optional("hx", {n.entries(), n.batch, n.hidden})) return false;
  if (!s.given("dxOut")) {
    if (!sequence(s, "output", n) || !states(s, {"hy"}, n)) return false;
    for (const char* name : {"rOut", "zOut", "nOut", "hnOut", "hOut"}) {  // empty where no gradient is wanted
      if (s.member(name, 0) && !steps(s, {name}, n)) return false;
    }
    return true;
  }
  const TensorCopy* x = s.tensor("input");
  return (!s.given("dy") || sequence(s, "dy", n)) && s.optional("dh", {n.entries(), n.batch, n.hidden}) &&
         steps(s, {"r", "z", "n", "hn", "h"}, n) && s.one("dxOut", {x->sizes()[0], x->sizes()[1], n.input}) &&
         states(s, {"dhPrevOut"}, n) && parameters(s, "dparamsOut", n);
}

namespace {

// Gates [batch, 4 * hidden] and states [batch, hidden].
bool cell(const Shapes& s, std::initializer_list<const char*> gates, std::initializer_list<const char*> state) {
  const TensorCopy* cx = s.tensor("cx");
  if (!s.dimensions("cx", cx, 2)) return false;
  const int64_t batch = cx->sizes()[0], hidden = cx->sizes()[1];
  for (const char* name : gates) {
    if (!s.one(name, {batch, 4 * hidden})) return false;
  }
  for (const char* name : state) {
    if (!s.optional(name, {batch, hidden})) return false;
  }
  for (const char* name : {"inputBiasOptional", "hiddenBiasOptional", "gradBiasOut"}) {
    if (!s.optional(name, {4 * hidden})) return false;
  }
  return true;
}

}  // namespace

bool check_lstm_cell(Plan& plan) {
  return cell(Shapes(plan), {"inputGates", "hiddenGates", "storageOut"}, {"hyOut", "cyOut"});
}

bool check_lstm_cell_backward(Plan& plan) {
  return cell(Shapes(plan), {"storage", "gradGatesOut"}, {"gradHyOptional", "gradCOptional", "cy", "gradCxOut"});
}

}  // namespace softnpu::ops
