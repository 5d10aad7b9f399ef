// Columns of text, as wide as they need to be.
#pragma once

#include <string>
#include <vector>

namespace penstock::cli {

class TextTable {
 public:
  explicit TextTable(std::vector<std::string> heads) : rows_{std::move(heads)} {}
  void Add(std::vector<std::string> row) { rows_.push_back(std::move(row)); }
  std::string Render(bool color) const;  // heads in bold where there is colour

 private:
  std::vector<std::vector<std::string>> rows_;
};

}  // namespace penstock::cli
