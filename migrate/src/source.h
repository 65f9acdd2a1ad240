// The bytes of one source file and what must be known to keep them: encoding class, newline, where lines begin.
// Not a decoder: the text is never converted, so whatever is not edited stays byte for byte. Used by every pass.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace migrate {

// How bytes from 0x80 on group into characters; all of them are supersets of ASCII. A double-byte encoding (GBK, Big5,
// Shift-JIS) may use ASCII letters, braces and the backslash as second bytes, so they must not be read on their own.
enum class Encoding { kUtf8, kSingleByte, kDoubleByte };

class Source {
 public:
  explicit Source(std::string bytes);

  const std::string& bytes() const { return bytes_; }
  std::string_view text(uint32_t start, uint32_t end) const {
    return std::string_view(bytes_).substr(start, end - start);
  }
  uint32_t size() const { return static_cast<uint32_t>(bytes_.size()); }
  uint32_t text_start() const { return bom_ ? 3 : 0; }
  Encoding encoding() const { return encoding_; }
  bool lone_cr() const { return lone_cr_; }              // old Macintosh newlines somewhere
  std::string_view newline() const { return newline_; }  // of the first line that ends
  // Why this is not Python text ("binary: a NUL byte", "UTF-16"), or empty.
  const std::string& refusal() const { return refusal_; }
  int refusal_line() const { return refusal_line_; }

  int line_count() const { return static_cast<int>(lines_.size()); }
  int line_of(uint32_t offset) const;  // from 1
  uint32_t line_start(int line) const { return lines_[line - 1]; }
  std::string_view line_text(int line) const;  // without its newline

 private:
  void find_encoding();

  std::string bytes_;
  std::vector<uint32_t> lines_;
  std::string encoding_name_ = "utf-8";  // lower case, as declared
  std::string newline_ = "\n";
  std::string refusal_;
  int refusal_line_ = 0;
  Encoding encoding_ = Encoding::kUtf8;
  bool bom_ = false;
  bool lone_cr_ = false;
};

// Is every byte sequence well-formed UTF-8?
bool valid_utf8(std::string_view text);
// The same text with every byte that is not part of well-formed UTF-8 as U+FFFD: for reports, never for output files.
std::string to_utf8(std::string_view text);

}  // namespace migrate
