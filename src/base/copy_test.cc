#include "base/copy.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <vector>

namespace penstock {
namespace {

TEST(CopyBytes, CopiesAllAndNoMoreWhateverItsSizeAndPlace) {
  std::mt19937_64 random(1);
  for (const size_t size : {size_t{0}, size_t{1}, size_t{100'001}, kFitsInCache, kFitsInCache + 77}) {
    for (const size_t shift : {0, 16, 5}) {
      std::vector<std::byte> from(size);
      std::ranges::generate(from, [&] { return static_cast<std::byte>(random()); });
      std::vector<std::byte> to(size + shift + 1, std::byte{42});
      CopyBytes(from, to.data() + shift);
      EXPECT_TRUE(std::ranges::equal(from, std::span(to).subspan(shift, size))) << size << " at " << shift;
      EXPECT_EQ(to.back(), std::byte{42});
    }
  }
}

}  // namespace
}  // namespace penstock
