// See source.h. The encoding declaration follows PEP 263: a comment in the first two lines.
#include "migrate/src/source.h"

#include <algorithm>
#include <array>
#include <cstring>

namespace migrate {
namespace {

constexpr std::array<std::string_view, 17> kDoubleByte = {
    "gbk",   "gb2312", "gb18030",   "cp936", "ms936",          "euc-cn",         "hz",    "big5", "big5-hkscs",
    "cp950", "cp932",  "shift-jis", "sjis",  "shift-jisx0213", "shift-jis-2004", "cp949", "johab"};

// Bytes of one well-formed UTF-8 character at p, or 0.
size_t utf8_length(const unsigned char* p, size_t left) {
  if (p[0] < 0x80) return 1;
  size_t n = p[0] >= 0xF0 ? 4 : p[0] >= 0xE0 ? 3 : 2;
  if (p[0] < 0xC2 || p[0] > 0xF4 || left < n) return 0;
  for (size_t i = 1; i < n; ++i)
    if ((p[i] & 0xC0) != 0x80) return 0;
  if ((p[0] == 0xE0 && p[1] < 0xA0) || (p[0] == 0xED && p[1] > 0x9F)) return 0;
  if ((p[0] == 0xF0 && p[1] < 0x90) || (p[0] == 0xF4 && p[1] > 0x8F)) return 0;
  return n;
}

// The name in "# -*- coding: NAME -*-", lower case with '-' for '_'; empty if the line declares none.
std::string declared(std::string_view line) {
  size_t hash = line.find_first_not_of(" \t\f");
  if (hash == std::string_view::npos || line[hash] != '#') return {};
  size_t at = line.find("coding", hash);
  if (at == std::string_view::npos || at + 7 > line.size()) return {};
  at += 6;
  if (at >= line.size() || (line[at] != ':' && line[at] != '=')) return {};
  at = line.find_first_not_of(" \t", at + 1);
  std::string name;
  for (; at < line.size(); ++at) {
    unsigned char c = line[at];
    if (!isalnum(c) && c != '-' && c != '_' && c != '.') break;
    name += c == '_' ? '-' : static_cast<char>(tolower(c));
  }
  return name;
}

}  // namespace

bool valid_utf8(std::string_view text) {
  auto* p = reinterpret_cast<const unsigned char*>(text.data());
  for (size_t i = 0; i < text.size();) {
    if (p[i] < 0x80) {
      ++i;
      continue;
    }
    size_t n = utf8_length(p + i, text.size() - i);
    if (n == 0) return false;
    i += n;
  }
  return true;
}

std::string to_utf8(std::string_view text) {
  if (valid_utf8(text)) return std::string(text);
  std::string out;
  auto* p = reinterpret_cast<const unsigned char*>(text.data());
  for (size_t i = 0; i < text.size();) {
    size_t n = utf8_length(p + i, text.size() - i);
    out += n ? std::string(text.substr(i, n)) : std::string("\xEF\xBF\xBD");
    i += n ? n : 1;
  }
  return out;
}

Source::Source(std::string bytes) : bytes_(std::move(bytes)) {
  bom_ = bytes_.starts_with("\xEF\xBB\xBF");
  lines_.push_back(0);
  bool first = true;
  for (size_t i = 0; i < bytes_.size();) {
    size_t at = i;  // the common newline is found by memchr, a lone CR only where there is a CR at all
    const char* lf = static_cast<const char*>(memchr(bytes_.data() + i, '\n', bytes_.size() - i));
    size_t end = lf ? lf - bytes_.data() : bytes_.size();
    while (const char* cr = static_cast<const char*>(memchr(bytes_.data() + at, '\r', end - at))) {
      size_t where = cr - bytes_.data();
      if (where + 1 == end && lf) break;  // CRLF
      lone_cr_ = true;
      if (first) newline_ = "\r", first = false;
      lines_.push_back(static_cast<uint32_t>(where + 1));
      at = where + 1;
      if (at >= end) break;
    }
    if (!lf) break;
    if (first) newline_ = end > 0 && bytes_[end - 1] == '\r' ? "\r\n" : "\n", first = false;
    lines_.push_back(static_cast<uint32_t>(end + 1));
    i = end + 1;
  }
  find_encoding();
}

void Source::find_encoding() {
  if (bytes_.starts_with("\xFF\xFE") || bytes_.starts_with("\xFE\xFF")) {
    refusal_ = "the file is UTF-16, which Python does not read", refusal_line_ = 1;
    return;
  }
  if (const void* nul = memchr(bytes_.data(), 0, bytes_.size())) {
    refusal_ = "the file is binary (it has a NUL byte)";
    refusal_line_ = line_of(static_cast<uint32_t>(static_cast<const char*>(nul) - bytes_.data()));
    return;
  }
  for (int line = 1; line <= std::min(2, line_count()); ++line) {
    std::string name = declared(line_text(line));
    if (!name.empty()) {
      encoding_name_ = name;
      break;
    }
    std::string_view text = line_text(line);
    size_t at = text.find_first_not_of(" \t\f");
    if (at != std::string_view::npos && text[at] != '#') break;
  }
  if (std::find(kDoubleByte.begin(), kDoubleByte.end(), encoding_name_) != kDoubleByte.end())
    encoding_ = Encoding::kDoubleByte;
  else if (!valid_utf8(bytes_))
    encoding_ = Encoding::kSingleByte;  // declared so, or wrong: either way its bytes are kept
  if (encoding_name_.starts_with("utf-16") || encoding_name_.starts_with("utf-32") || encoding_name_ == "utf-7")
    refusal_ = "the declared encoding " + encoding_name_ + " is no superset of ASCII", refusal_line_ = 1;
}

int Source::line_of(uint32_t offset) const {
  return static_cast<int>(std::upper_bound(lines_.begin(), lines_.end(), offset) - lines_.begin());
}

std::string_view Source::line_text(int line) const {
  size_t start = line == 1 ? text_start() : lines_[line - 1];
  size_t end = line < line_count() ? lines_[line] : bytes_.size();
  while (end > start && (bytes_[end - 1] == '\n' || bytes_[end - 1] == '\r')) --end;
  return std::string_view(bytes_).substr(start, end - start);
}

}  // namespace migrate
