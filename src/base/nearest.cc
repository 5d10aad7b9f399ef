#include "base/nearest.h"

#include <algorithm>
#include <cstddef>
#include <vector>

namespace penstock {
namespace {

constexpr size_t kLongestWord = 64;  // the distance takes the product of the lengths

// Levenshtein's, with a row of memory.
size_t Distance(std::string_view a, std::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    size_t diagonal = row[0];
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t changed = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({row[j] + 1, row[j - 1] + 1, changed});
    }
  }
  return row.back();
}

}  // namespace

std::string_view Nearest(std::string_view word, std::span<const std::string_view> known) {
  if (word.size() > kLongestWord) return {};
  std::string_view nearest;
  size_t best = std::max<size_t>(2, word.size() / 2);
  for (const std::string_view name : known) {
    const size_t distance = Distance(word, name);
    if (distance < name.size() && distance <= best && (nearest.empty() || distance < best)) {
      best = distance;
      nearest = name;
    }
  }
  return nearest;
}

}  // namespace penstock
