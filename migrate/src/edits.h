// Byte-range edits of one file. What no edit covers is copied as it is: this is how bytes are kept.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace migrate {

struct Edit {
  uint32_t start = 0, end = 0;  // of the original; start == end inserts
  std::string text;
  std::string operation;  // for change_list.csv: "modify", "insert", "delete"
  std::string message;
  bool first = false;  // of the insertions at one place
};

class Edits {
 public:
  void replace(uint32_t start, uint32_t end, std::string text, std::string message);
  void insert(uint32_t at, std::string text, std::string message, bool first = false);
  void remove(uint32_t start, uint32_t end, std::string message);
  bool empty() const { return edits_.empty(); }

  // In source order. Where two overlap the one that covers more wins; of equals, the first added.
  std::vector<Edit> sorted() const;

 private:
  std::vector<Edit> edits_;
};

std::string edited(std::string_view original, const std::vector<Edit>& sorted);

}  // namespace migrate
