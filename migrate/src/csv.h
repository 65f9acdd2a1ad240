// One CSV table: quoting, and a guard for cells that a spreadsheet would run as a formula.
#pragma once
#include <string>
#include <vector>

namespace migrate {

std::string csv_row(const std::vector<std::string>& cells);

}  // namespace migrate
