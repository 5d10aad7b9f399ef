// The contract of a detector: one platform, one file, one function a question that the platform can answer.
//
// A detector looks at the inputs and says what its platform says, and from what. It does not know who else speaks.
#pragma once

#include <concepts>
#include <optional>
#include <string>
#include <utility>
#include <variant>

#include "cluster/identity.h"

namespace penstock::cluster {

struct Silent {
  std::string why;  // "" where the platform is not there at all
};

template <class T>
struct Opinion {
  Opinion(Silent silent = {}) : says(std::move(silent)) {}  // NOLINT: silence is an opinion
  Opinion(Status error, std::string from) : says(std::move(error)), because(std::move(from)) {}
  template <std::convertible_to<T> Value>
  Opinion(Value&& value, std::string from) : says(std::in_place_index<1>, std::forward<Value>(value)), because(std::move(from)) {}
  Opinion(Result<T> result, std::string from) : because(std::move(from)) {
    if (result.ok()) {
      says = std::move(result).value();
    } else {
      says = result.status();
    }
  }

  std::variant<Silent, T, Status> says;
  std::string because;  // the variables or fields that spoke
};

// What a source knows of the rank. Some know only one half: an Indexed Job its index, a manifest the number of ranks. The world alone is
// no answer, but completes the next one that has an index, and must agree with it.
struct Place {
  std::optional<uint32_t> index;
  std::optional<uint32_t> world;
};

}  // namespace penstock::cluster
