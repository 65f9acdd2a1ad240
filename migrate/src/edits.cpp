// See edits.h.
#include "migrate/src/edits.h"

#include <algorithm>

namespace migrate {

void Edits::replace(uint32_t start, uint32_t end, std::string text, std::string message) {
  edits_.push_back({start, end, std::move(text), "modify", std::move(message), false});
}
void Edits::insert(uint32_t at, std::string text, std::string message, bool first) {
  edits_.push_back({at, at, std::move(text), "insert", std::move(message), first});
}
void Edits::remove(uint32_t start, uint32_t end, std::string message) {
  edits_.push_back({start, end, "", "delete", std::move(message), false});
}

std::vector<Edit> Edits::sorted() const {
  std::vector<Edit> all = edits_;
  std::stable_sort(all.begin(), all.end(), [](const Edit& a, const Edit& b) {
    if (a.start != b.start) return a.start < b.start;
    bool a_inserts = a.start == a.end, b_inserts = b.start == b.end;
    if (a_inserts != b_inserts) return a_inserts;  // an insertion goes before what is replaced there
    return a_inserts ? a.first && !b.first : a.end > b.end;
  });
  std::vector<Edit> kept;
  for (Edit& edit : all) {
    bool overlaps = !kept.empty() && edit.start < kept.back().end;
    if (overlaps && edit.start == edit.end && edit.start == kept.back().end) overlaps = false;
    if (overlaps) {
      // Starts inside the one before. A larger one that only begins later cannot be nested: keep the first.
      continue;
    }
    kept.push_back(std::move(edit));
  }
  return kept;
}

std::string edited(std::string_view original, const std::vector<Edit>& sorted) {
  std::string out;
  size_t extra = 0;
  for (const Edit& edit : sorted) extra += edit.text.size();
  out.reserve(original.size() + extra);
  size_t at = 0;
  for (const Edit& edit : sorted) {
    out += original.substr(at, edit.start - at);
    out += edit.text;
    at = edit.end;
  }
  out += original.substr(at);
  return out;
}

}  // namespace migrate
