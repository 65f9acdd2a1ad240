// See json.h.
#include "migrate/src/json.h"

#include <algorithm>
#include <cstring>

#include "migrate/src/source.h"

namespace migrate {

class JsonReader {
 public:
  explicit JsonReader(std::string_view text) : text_(text) {}

  std::optional<Json> read(std::string* error) {
    Json value;
    bool good = this->value(&value, 0);
    skip();
    if (good && at_ != text_.size()) good = fail("text after the value");
    if (!good) {
      *error = error_ + " on line " +
               std::to_string(1 + std::count(text_.begin(), text_.begin() + std::min(at_, text_.size()), '\n'));
      return std::nullopt;
    }
    return value;
  }

 private:
  bool fail(const char* what) {
    if (error_.empty()) error_ = what;
    return false;
  }
  void skip() {
    while (at_ < text_.size() && strchr(" \t\r\n", text_[at_]) && text_[at_]) ++at_;
  }
  bool take(char c) {
    skip();
    if (at_ >= text_.size() || text_[at_] != c) return false;
    ++at_;
    return true;
  }

  bool string(std::string* out) {
    skip();
    if (at_ >= text_.size() || text_[at_] != '"') return fail("a string is expected");
    for (++at_; at_ < text_.size(); ++at_) {
      char c = text_[at_];
      if (c == '"') {
        ++at_;
        return true;
      }
      if (c != '\\') {
        *out += c;
        continue;
      }
      if (++at_ >= text_.size()) break;
      switch (text_[at_]) {
        case 'n':
          *out += '\n';
          break;
        case 't':
          *out += '\t';
          break;
        case 'r':
          *out += '\r';
          break;
        case 'b':
          *out += '\b';
          break;
        case 'f':
          *out += '\f';
          break;
        case 'u': {
          unsigned code = 0;
          if (!hex(&code)) return fail("a wrong \\u escape");
          if (code >= 0xD800 && code < 0xDC00 && text_.substr(at_ + 1, 2) == "\\u") {
            unsigned low = 0;
            at_ += 2;
            if (!hex(&low)) return fail("a wrong \\u escape");
            code = 0x10000 + ((code - 0xD800) << 10) + (low - 0xDC00);
          }
          append(out, code);
          break;
        }
        default:
          *out += text_[at_];
      }
    }
    return fail("a string does not end");
  }

  bool hex(unsigned* code) {
    if (at_ + 4 >= text_.size()) return false;
    for (int i = 0; i < 4; ++i) {
      char c = text_[++at_];
      if (!isxdigit(static_cast<unsigned char>(c))) return false;
      *code = *code * 16 + (isdigit(static_cast<unsigned char>(c)) ? c - '0' : (c | 32) - 'a' + 10);
    }
    return true;
  }

  static void append(std::string* out, unsigned code) {
    auto put = [&](unsigned byte) { *out += static_cast<char>(byte); };
    if (code < 0x80) {
      put(code);
    } else if (code < 0x800) {
      put(0xC0 | code >> 6), put(0x80 | (code & 63));
    } else if (code < 0x10000) {
      put(0xE0 | code >> 12), put(0x80 | (code >> 6 & 63)), put(0x80 | (code & 63));
    } else {
      put(0xF0 | (code >> 18 & 7)), put(0x80 | (code >> 12 & 63)), put(0x80 | (code >> 6 & 63)),
          put(0x80 | (code & 63));
    }
  }

  bool value(Json* out, int depth) {
    if (depth > 500) return fail("nested too deeply");
    skip();
    if (at_ >= text_.size()) return fail("a value is expected");
    out->start_ = static_cast<uint32_t>(at_);
    bool good = true;
    char c = text_[at_];
    if (c == '"') {
      out->type_ = Json::kString;
      good = string(&out->text_);
    } else if (c == '[') {
      ++at_;
      out->type_ = Json::kArray;
      if (!take(']')) {
        do {
          out->items_.emplace_back();
          good = value(&out->items_.back(), depth + 1);
        } while (good && take(','));
        if (good && !take(']')) good = fail("',' or ']' is expected");
      }
    } else if (c == '{') {
      ++at_;
      out->type_ = Json::kObject;
      if (!take('}')) {
        do {
          out->members_.emplace_back();
          good = string(&out->members_.back().first) && (take(':') || fail("':' is expected")) &&
                 value(&out->members_.back().second, depth + 1);
        } while (good && take(','));
        if (good && !take('}')) good = fail("',' or '}' is expected");
      }
    } else {
      size_t end = at_;
      while (end < text_.size() && (isalnum(static_cast<unsigned char>(text_[end])) || strchr("+-.", text_[end])) &&
             text_[end])
        ++end;
      out->text_ = std::string(text_.substr(at_, end - at_));
      if (out->text_ == "true" || out->text_ == "false")
        out->type_ = Json::kBool;
      else if (out->text_ == "null")
        out->type_ = Json::kNull;
      else if (c == '-' || isdigit(static_cast<unsigned char>(c)))
        out->type_ = Json::kNumber;
      else
        good = fail("a value is expected");
      at_ = end;
    }
    out->end_ = static_cast<uint32_t>(at_);
    return good;
  }

  std::string_view text_;
  size_t at_ = 0;
  std::string error_;
};

std::optional<Json> Json::parse(std::string_view text, std::string* error) { return JsonReader(text).read(error); }

const Json* Json::get(std::string_view key) const {
  for (const auto& [name, value] : members_)
    if (name == key) return &value;
  return nullptr;
}

std::string json_quote(std::string_view text) {
  static const char* kHex = "0123456789abcdef";
  std::string out = "\"";
  for (char c : to_utf8(text)) {
    auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\')
      out += '\\', out += c;
    else if (c == '\n')
      out += "\\n";
    else if (c == '\t')
      out += "\\t";
    else if (c == '\r')
      out += "\\r";
    else if (byte < 0x20)
      out += std::string("\\u00") + kHex[byte >> 4] + kHex[byte & 15];
    else
      out += c;
  }
  return out + "\"";
}

}  // namespace migrate
