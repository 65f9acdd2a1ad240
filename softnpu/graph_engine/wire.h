// Reads one message of protobuf's wire format, field by field, in bytes that may be anything: each length is checked against what is
// left, and a field of another kind than its reader expects is an error that names the message, the field and the byte.
// What it is not: the messages' meaning (read_model.cpp).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "softnpu/graph_engine/error.h"

namespace softnpu::graph {

class Wire {
 public:
  // `message` says what it is, for errors, inside of `outer`. Both must outlive the reader.
  Wire(std::string_view bytes, const char* message, const Wire* outer = nullptr) noexcept;

  // Goes to the next field, past what was not read of this one. False at the message's end.
  bool next();
  uint32_t field() const noexcept { return field_; }

  // The field's value; each throws Error if it is of another kind.
  int64_t integer();
  float real();
  bool flag() { return integer() != 0; }
  std::string_view bytes();
  // A repeated field's values, one or packed.
  template <typename Take>
  void integers(Take take) {
    if (kind_ != kBytes) return take(integer());
    Wire packed(bytes(), message_, outer_);
    while (packed.at_ < packed.bytes_.size()) take(static_cast<int64_t>(packed.varint()));
  }
  template <typename Take>
  void reals(Take take) {
    if (kind_ != kBytes) return take(real());
    Wire packed(bytes(), message_, outer_);
    while (packed.at_ < packed.bytes_.size()) take(packed.fixed32());
  }

  // Which of several it is, for errors: "op 'Add_1'".
  void call_it(std::string_view name) { name_ = name; }
  [[noreturn]] void fail(const std::string& what) const;

 private:
  enum Kind : uint8_t { kVarint = 0, kFixed64 = 1, kBytes = 2, kFixed32 = 5 };

  void need(Kind kind);
  uint64_t varint();
  float fixed32();
  std::string_view take(uint64_t count);
  void skip();
  std::string path() const;

  std::string_view bytes_, name_;
  const char* message_;
  const Wire* outer_;
  size_t at_ = 0;
  uint32_t field_ = 0;
  uint8_t kind_ = 0;
  bool unread_ = false;
};

}  // namespace softnpu::graph
