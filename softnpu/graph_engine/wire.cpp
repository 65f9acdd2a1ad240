// See wire.h.
#include "softnpu/graph_engine/wire.h"

#include <cstring>

namespace softnpu::graph {

Wire::Wire(std::string_view bytes, const char* message, const Wire* outer) noexcept
    : bytes_(bytes), message_(message), outer_(outer) {}

bool Wire::next() {
  if (unread_) skip();
  if (at_ == bytes_.size()) return false;
  const uint64_t key = varint();
  if (key >> 3 == 0 || key >> 32) fail("a field with the number " + std::to_string(key >> 3));
  field_ = static_cast<uint32_t>(key >> 3);
  kind_ = key & 7;
  if (kind_ != kVarint && kind_ != kFixed64 && kind_ != kBytes && kind_ != kFixed32)
    fail("a value of the unknown kind " + std::to_string(kind_));
  unread_ = true;
  return true;
}

int64_t Wire::integer() {
  need(kVarint);
  return static_cast<int64_t>(varint());
}

float Wire::real() {
  need(kFixed32);
  return fixed32();
}

std::string_view Wire::bytes() {
  need(kBytes);
  return take(varint());
}

void Wire::need(Kind kind) {
  if (kind_ != kind)
    fail("a value of kind " + std::to_string(kind_) + " where one of kind " + std::to_string(kind) + " belongs");
  unread_ = false;
}

uint64_t Wire::varint() {
  uint64_t value = 0;
  for (int shift = 0; shift < 64; shift += 7) {
    if (at_ == bytes_.size()) fail("it ends inside of a number");
    const uint8_t byte = static_cast<uint8_t>(bytes_[at_++]);
    if (shift == 63 && byte > 1) break;
    value |= static_cast<uint64_t>(byte & 0x7F) << shift;
    if (!(byte & 0x80)) return value;
  }
  fail("a number of more than 64 bits");
}

float Wire::fixed32() {
  float value;
  std::memcpy(&value, take(sizeof value).data(), sizeof value);
  return value;
}

std::string_view Wire::take(uint64_t count) {
  if (count > bytes_.size() - at_)
    fail("a value of " + std::to_string(count) + " bytes where " + std::to_string(bytes_.size() - at_) + " are left");
  at_ += count;
  return bytes_.substr(at_ - count, count);
}

void Wire::skip() {
  unread_ = false;
  switch (kind_) {
    case kVarint:
      varint();
      break;
    case kFixed64:
      take(8);
      break;
    case kBytes:
      take(varint());
      break;
    default:
      take(4);
  }
}

std::string Wire::path() const {
  std::string text = outer_ ? outer_->path() + ", " : std::string();
  text += message_;
  if (!name_.empty()) text.append(" '").append(name_.substr(0, 128)).append("'");
  return text;
}

void Wire::fail(const std::string& what) const {
  std::string text = "the serialized graph is damaged: " + path();
  if (field_) text += ", field " + std::to_string(field_);
  throw Error(text + ", byte " + std::to_string(at_) + ": " + what);
}

}  // namespace softnpu::graph
