// See csv.h.
#include "migrate/src/csv.h"

#include "migrate/src/source.h"

namespace migrate {

std::string csv_row(const std::vector<std::string>& cells) {
  std::string row;
  for (size_t i = 0; i < cells.size(); ++i) {
    std::string cell = to_utf8(cells[i]);
    if (!cell.empty() && std::string_view("=+-@\t\r").find(cell[0]) != std::string_view::npos) cell.insert(0, "'");
    bool quote = cell.find_first_of(",\"\r\n") != std::string::npos;
    if (i) row += ',';
    if (!quote) {
      row += cell;
      continue;
    }
    row += '"';
    for (char c : cell) row += c == '"' ? std::string("\"\"") : std::string(1, c);
    row += '"';
  }
  return row + "\n";
}

}  // namespace migrate
