// Text of a library as UTF-8.
#pragma once

#include <string>
#include <string_view>

namespace cann {

// Bytes that are no UTF-8 become U+FFFD, one for each: a kernel's source may have texts in another encoding, and a message may
// have been cut inside of a character. PyTorch makes a Python string of an error's text and takes UTF-8 for granted.
std::string readable(std::string_view text);

}  // namespace cann
