// Tokens: the cluster's own, and those made from it for one job or for a time.
//
// A derived token is "pst1.<claims in hex>.<HMAC-SHA256 under the cluster's token>": servers need to know nothing but the cluster's token to
// check it. It is checked when a session begins. Comparisons take the same time for every wrong token; tokens are never logged.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "penstock/status.h"

namespace penstock {

struct TokenClaims {
  std::string job{};    // the only job whose rows may be read with it; "": any
  int64_t expires = 0;  // seconds since 1970; 0: never
  friend bool operator==(const TokenClaims&, const TokenClaims&) = default;
};

std::string RandomToken();  // 256 bits
std::string DeriveToken(std::string_view cluster_token, const TokenClaims& claims);
// What the shown token allows. Permission says what is wrong with it and what to do.
Result<TokenClaims> CheckToken(std::string_view cluster_token, std::string_view shown, int64_t now);

// A token that is to be the cluster's own: Invalid for one that was made from another, and for one that could be guessed.
Status CheckClusterToken(std::string_view token);

// The same time for every wrong token.
bool SameToken(std::string_view one, std::string_view other);

}  // namespace penstock
