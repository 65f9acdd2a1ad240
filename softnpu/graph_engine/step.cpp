// See step.h.
#include "softnpu/graph_engine/step.h"

#include <cstring>
#include <utility>

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

template <typename Number>  // int32 or int64
std::string narrowed_bytes(const Dims& numbers) {
  std::string bytes(numbers.size() * sizeof(Number), '\0');
  for (size_t i = 0; i < numbers.size(); i++) {
    if (!std::in_range<Number>(numbers[i]))
      throw Error(std::to_string(numbers[i]) + " is more than int" + std::to_string(8 * sizeof(Number)) + " holds");
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

aclDataType Step::type(const char* name, std::optional<int64_t> fallback) const {
  const int64_t number = integer(name, fallback);
  const bool known = std::in_range<int32_t>(number) && bytes_of(static_cast<aclDataType>(number));
  if (!known)
    throw Error(std::string("attribute '") + name + "' is " + std::to_string(number) + ", which is no data type here");
  return static_cast<aclDataType>(number);
}

void Step::need(const char* name, bool value) const {
  if (flag(name, value) != value)
    throw Error(std::string("attribute '") + name + "' is " + (value ? "false" : "true") + ": only " +
                (value ? "true" : "false") + " is supported");
}
void Step::need(const char* name, int64_t value) const {
  if (const int64_t found = integer(name, value); found != value)
    throw Error(std::string("attribute '") + name + "' is " + std::to_string(found) + ": only " +
                std::to_string(value) + " is supported");
}
void Step::need_none(size_t place, const char* name) const {
  if (in(place)) throw Error(std::string("input '") + name + "' is not supported");
}
void Step::need_same(std::initializer_list<size_t> places) const {
  int first = -1;
  const auto type = [&](int position) { return inputs_[static_cast<size_t>(position)].type; };
  const auto said = [&](int position) {
    return "'" + node_.inputs[static_cast<size_t>(position)].name + "' is " + name_of(type(position));
  };
  for (size_t place : places)
    for (int position : bound_[place]) {
      if (!inputs_[static_cast<size_t>(position)]) continue;
      if (first < 0) first = position;
      if (type(position) != type(first))
        throw Error("input " + said(position) + " and input " + said(first) + ": they must have one data type");
    }
}
void Step::need_index(size_t place, const char* name) const {
  const Value& value = in(place);
  if (value && value.type != ACL_INT32 && value.type != ACL_INT64)
    throw Error(std::string("input '") + name + "' is " + name_of(value.type) + ": int32 or int64 is wanted");
}
void Step::need_flags(size_t place, const char* name) const {
  if (const Value& value = in(place); value && value.type != ACL_BOOL)
    throw Error(std::string("input '") + name + "' is " + name_of(value.type) + ": bool is wanted");
}
int64_t Step::parts(int64_t count) const {
  const auto declared = static_cast<int64_t>(node_.outputs.size());
  if (declared && count != declared)
    throw Error(std::to_string(count) + " results, and the node declares " + std::to_string(declared));
  return count;
}

Value Step::make(const Spec& spec) { return outputs_.emplace_back(temporary(spec)); }
Value Step::make(const Value& value) {
  if (value.elements() < 0) throw Error("a result of shape " + text_of(value.dims));
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

Dims Step::ints(const Value& value) {
  if (value && !value.elements()) return {};
  if (value && value.type != ACL_INT32 && value.type != ACL_INT64)
    throw Error("numbers of int32 or int64 are wanted, not of " + name_of(value.type));
  return numbers<int64_t>(value);
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

int64_t Step::index(const Value& value) {
  const Dims found = ints(value);
  if (found.size() != 1) throw Error("one number is wanted of a tensor of shape " + text_of(value.dims));
  return found[0];
}

Number Step::number(const Value& value) {
  if (value.elements() != 1) throw Error("one number is wanted of a tensor of shape " + text_of(value.dims));
  if (whole(value)) return {true, numbers<int64_t>(value)[0], 0};
  return {false, 0, numbers<double>(value)[0]};
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
