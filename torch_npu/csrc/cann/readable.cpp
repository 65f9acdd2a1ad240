#include "csrc/cann/readable.h"

#include <cstdint>

namespace cann {
namespace {

// How many bytes the character at the start has; 0 if there is none. As Unicode's table 3-7 has it: no overlong forms, no
// surrogates, nothing beyond U+10FFFF.
size_t character(std::string_view text) {
  const auto byte = [&](size_t i) { return i < text.size() ? static_cast<uint8_t>(text[i]) : 0; };
  const uint8_t first = byte(0);
  if (first < 0x80) return 1;
  const size_t length = first < 0xc2 ? 0 : first < 0xe0 ? 2 : first < 0xf0 ? 3 : first < 0xf5 ? 4 : 0;
  if (length == 0) return 0;
  const uint8_t least = first == 0xe0 ? 0xa0 : first == 0xf0 ? 0x90 : 0x80;
  const uint8_t most = first == 0xed ? 0x9f : first == 0xf4 ? 0x8f : 0xbf;
  if (byte(1) < least || byte(1) > most) return 0;
  for (size_t i = 2; i < length; ++i)
    if (byte(i) < 0x80 || byte(i) > 0xbf) return 0;
  return length;
}

}  // namespace

std::string readable(std::string_view text) {
  std::string made;
  made.reserve(text.size());
  while (!text.empty()) {
    const size_t length = character(text);
    made += length ? text.substr(0, length) : std::string_view("\xef\xbf\xbd");
    text.remove_prefix(length ? length : 1);
  }
  return made;
}

}  // namespace cann
