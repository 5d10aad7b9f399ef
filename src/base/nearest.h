// "Did you mean …?": the word that a misspelt one was probably meant to be.
#pragma once

#include <span>
#include <string_view>

namespace penstock {

// The nearest of `known` by letters changed, added or left out; "" where each is so far off that it is another word.
std::string_view Nearest(std::string_view word, std::span<const std::string_view> known);

}  // namespace penstock
