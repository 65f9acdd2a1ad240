// See step.h.
#include "softnpu/graph_engine/step.h"

#include <cstring>

namespace softnpu::graph {
namespace {

template <typename T>
const T* find(const Attributes& attributes, const char* name, bool required, const char* kind) {
  const auto found = attributes.find(name);
  if (found == attributes.end() || std::holds_alternative<std::monostate>(found->second)) {
    if (required) throw Error(std::string("attribute '") + name + "' is missing");
    return nullptr;
  }
  const T* value = std::get_if<T>(&found->second);
  if (!value) throw Error(std::string("attribute '") + name + "' is not " + kind);
  return value;
}

template <typename Number, typename T>
void widen(const std::string& bytes, int64_t offset, std::vector<T>& to) {
  for (size_t i = 0; i < to.size(); i++) {
    Number number;
    std::memcpy(&number, bytes.data() + (static_cast<size_t>(offset) + i) * sizeof number, sizeof number);
    to[i] = static_cast<T>(number);
  }
}

template <typename Number>
std::string narrowed_bytes(const Dims& numbers) {
  std::string bytes(numbers.size() * sizeof(Number), '\0');
  for (size_t i = 0; i < numbers.size(); i++) {
    const Number number = static_cast<Number>(numbers[i]);
    std::memcpy(bytes.data() + i * sizeof number, &number, sizeof number);
  }
  return bytes;
}

}  // namespace

const Value& Step::in(size_t place) const {
  static const Value left_out;
  return bound_[place].empty() ? left_out : inputs_[static_cast<size_t>(bound_[place].front())];
}

std::vector<Value> Step::list(size_t place) const {
  std::vector<Value> values;
  for (int position : bound_[place])
    if (inputs_[static_cast<size_t>(position)]) values.push_back(inputs_[static_cast<size_t>(position)]);
  return values;
}

int64_t Step::integer(const char* name, std::optional<int64_t> fallback) const {
  const int64_t* found = find<int64_t>(node_.attributes, name, !fallback, "an integer");
  return found ? *found : *fallback;
}
double Step::real(const char* name, std::optional<double> fallback) const {
  const double* found = find<double>(node_.attributes, name, !fallback, "a floating point number");
  return found ? *found : *fallback;
}
bool Step::flag(const char* name, std::optional<bool> fallback) const {
  const bool* found = find<bool>(node_.attributes, name, !fallback, "true or false");
  return found ? *found : *fallback;
}
std::string Step::text(const char* name, std::optional<std::string> fallback) const {
  const std::string* found = find<std::string>(node_.attributes, name, !fallback, "a string");
  return found ? *found : *fallback;
}
Dims Step::integers(const char* name, std::optional<Dims> fallback) const {
  const Dims* found = find<Dims>(node_.attributes, name, !fallback, "a list of integers");
  return found ? *found : *fallback;
}
std::vector<bool> Step::flags(const char* name) const {
  // An empty list has the type of integers, as the wire does not say another.
  const auto there = node_.attributes.find(name);
  if (there != node_.attributes.end())
    if (const auto* none = std::get_if<Dims>(&there->second); none && none->empty()) return {};
  const auto* found = find<std::vector<bool>>(node_.attributes, name, false, "a list of booleans");
  return found ? *found : std::vector<bool>();
}

Value Step::make(const Spec& spec) { return outputs_.emplace_back(temporary(spec)); }
Value Step::make(const Value& value) {
  const bool varies = value.storage->device && value.storage->device->varies;
  outputs_.push_back(varies ? copied(value) : dense(value));
  outputs_.back().variable = false;
  return outputs_.back();
}
Value Step::make_in_place(size_t place) {
  const Value& value = in(place);
  const Storage& storage = *value.storage;
  const bool clients = storage.device && storage.device->clients;
  // The last user of a value has the only reference (run.cpp); what only looks like an input (Identity, Reshape) is not one.
  const bool alone = !storage.constant && value.storage.use_count() == 1;
  outputs_.push_back((clients ? value.variable : alone) ? value : copied(value));
  lane.address(outputs_.back());
  wrote(outputs_.back());
  return outputs_.back();
}
std::vector<Value> Step::make(const std::vector<Value>& values) {
  for (const Value& value : values) make(value);
  return {outputs_.end() - static_cast<ptrdiff_t>(values.size()), outputs_.end()};
}

Value Step::temporary(const Spec& spec) {
  const int64_t elements = elements_of(spec.dims), size = bytes_of(spec.type);
  int64_t bytes = 0;
  if (!size) throw Error("a result of " + name_of(spec.type));
  if (elements < 0 || __builtin_mul_overflow(elements, size, &bytes))
    throw Error("a result of shape " + text_of(spec.dims));
  auto storage = std::make_shared<Storage>();
  storage->device = lane.allocate(static_cast<size_t>(bytes));
  return dense_value(spec, std::move(storage));
}

Value Step::dense(const Value& value) { return value.dense() ? value : copied(value); }

Value Step::copied(const Value& value) {
  const Value copy = temporary({value.type, value.dims});
  if (copy.elements()) call(ACLNN(aclnnInplaceCopy), copy, value);
  return copy;
}

template <typename T>
std::vector<T> Step::numbers(const Value& value) {
  if (!value) return {};
  if (!value.dense()) return numbers<T>(dense(value));
  std::vector<T> found(static_cast<size_t>(value.elements()));
  const std::string& bytes = lane.bytes(value);
  if ((static_cast<size_t>(value.offset) + found.size()) * static_cast<size_t>(bytes_of(value.type)) > bytes.size())
    throw Error("a tensor that is longer than its storage");
  switch (value.type) {
    case ACL_INT64:
      widen<int64_t>(bytes, value.offset, found);
      break;
    case ACL_INT32:
      widen<int32_t>(bytes, value.offset, found);
      break;
    case ACL_INT16:
      widen<int16_t>(bytes, value.offset, found);
      break;
    case ACL_INT8:
      widen<int8_t>(bytes, value.offset, found);
      break;
    case ACL_UINT8:
    case ACL_BOOL:
      widen<uint8_t>(bytes, value.offset, found);
      break;
    case ACL_FLOAT:
      widen<float>(bytes, value.offset, found);
      break;
    case ACL_DOUBLE:
      widen<double>(bytes, value.offset, found);
      break;
    default:
      throw Error("numbers are wanted of a tensor of " + name_of(value.type));
  }
  return found;
}
template std::vector<int64_t> Step::numbers<int64_t>(const Value&);
template std::vector<double> Step::numbers<double>(const Value&);

int64_t Step::index(const Value& value) {
  const Dims found = ints(value);
  if (found.size() != 1) throw Error("one number is wanted of a tensor of shape " + text_of(value.dims));
  return found[0];
}

double Step::number(const Value& value) {
  const std::vector<double> found = reals(value);
  if (found.size() != 1) throw Error("one number is wanted of a tensor of shape " + text_of(value.dims));
  return found[0];
}

Value Step::numbers_of(const Spec& spec, const Dims& numbers) {
  auto storage = std::make_shared<Storage>();
  if (spec.type == ACL_INT64)
    storage->host = std::make_shared<std::string>(narrowed_bytes<int64_t>(numbers));
  else if (spec.type == ACL_INT32)
    storage->host = std::make_shared<std::string>(narrowed_bytes<int32_t>(numbers));
  else
    throw Error("numbers of " + name_of(spec.type));
  return dense_value(spec, std::move(storage));
}

}  // namespace softnpu::graph
