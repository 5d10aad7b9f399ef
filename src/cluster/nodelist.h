// Slurm's way to write many hosts: rack[0-1]n[01-04,7],login
//
// A list is items with commas between them; an item is text and brackets in any order; a bracket holds numbers and ranges with commas between them.
// A range keeps the width of its first number (01-04 is 01, 02, 03, 04). Several brackets multiply, the rightmost running fastest.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "penstock/status.h"

namespace penstock::cluster {

inline constexpr size_t kMaxNodes = 65'536;  // Slurm's own bound of a list

// The hosts in the order written. Invalid with the position of the first fault; TooLarge, before anything is allocated, above `cap` hosts.
Result<std::vector<std::string>> ExpandNodelist(std::string_view text, size_t cap = kMaxNodes);

// The first host alone, of a list of any size.
Result<std::string> FirstNode(std::string_view text);

}  // namespace penstock::cluster
