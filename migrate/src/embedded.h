// Files of migrate/data and migrate/templates, compiled in: the tool is one file that needs nothing beside it.
#pragma once
#include <string_view>

namespace migrate {

struct EmbeddedFile {
  std::string_view name;  // relative to migrate/
  std::string_view text;
};
extern const EmbeddedFile kEmbedded[];
extern const int kEmbeddedCount;

// The text of one embedded file; empty if there is none of that name.
inline std::string_view embedded(std::string_view name) {
  for (int i = 0; i < kEmbeddedCount; ++i)
    if (kEmbedded[i].name == name) return kEmbedded[i].text;
  return {};
}

}  // namespace migrate
