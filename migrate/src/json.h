// A small JSON reader and writer with positions: rules files, notebooks and configuration files are edited in place, so a
// string's byte range matters more than its value. Not for large data.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace migrate {

class Json {
 public:
  enum Type : uint8_t { kNull, kBool, kNumber, kString, kArray, kObject };

  // UTF-8 text; on failure `error` says what and on which line. Nesting is limited to 500.
  static std::optional<Json> parse(std::string_view text, std::string* error);

  Type type() const { return type_; }
  bool is_string() const { return type_ == kString; }
  bool is_array() const { return type_ == kArray; }
  bool is_object() const { return type_ == kObject; }
  const std::string& string() const { return text_; }  // unescaped; of a number as written
  const std::vector<Json>& array() const { return items_; }
  const std::vector<std::pair<std::string, Json>>& object() const { return members_; }
  const Json* get(std::string_view key) const;
  uint32_t start() const { return start_; }  // bytes of the value in the text, quotes included
  uint32_t end() const { return end_; }

 private:
  friend class JsonReader;
  Type type_ = kNull;
  std::string text_;
  std::vector<Json> items_;
  std::vector<std::pair<std::string, Json>> members_;
  uint32_t start_ = 0, end_ = 0;
};

// "text" with quotes and escapes; bytes that are not UTF-8 become U+FFFD.
std::string json_quote(std::string_view text);

}  // namespace migrate
