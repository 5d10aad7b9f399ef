#include "cli/text_table.h"

#include <algorithm>

namespace penstock::cli {

std::string TextTable::Render(bool color) const {
  std::vector<size_t> widths(rows_.front().size());
  for (const auto& row : rows_) {
    for (size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  }
  std::string text;
  for (size_t r = 0; r < rows_.size(); ++r) {
    std::string line;
    for (size_t i = 0; i < rows_[r].size(); ++i) {
      line += rows_[r][i];
      if (i + 1 < rows_[r].size()) line.append(widths[i] - rows_[r][i].size() + 2, ' ');
    }
    text += color && r == 0 ? "\x1b[1m" + line + "\x1b[0m\n" : line + "\n";
  }
  return text;
}

}  // namespace penstock::cli
