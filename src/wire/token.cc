#include "wire/token.h"

#include <openssl/crypto.h>
#include <openssl/hmac.h>
#include <openssl/rand.h>

#include <array>
#include <charconv>
#include <optional>

#include "base/sha256.h"

namespace penstock {
namespace {

constexpr std::string_view kPrefix = "pst1.";
constexpr size_t kLeastBytes = 16;  // of the cluster's own: shorter ones are found by trying

std::string Hex(std::string_view bytes) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string text;
  for (const char c : bytes) {
    text += kDigits[static_cast<unsigned char>(c) >> 4];
    text += kDigits[static_cast<unsigned char>(c) & 15];
  }
  return text;
}

std::optional<std::string> FromHex(std::string_view text) {
  if (text.size() % 2 != 0) return std::nullopt;
  std::string bytes;
  for (size_t i = 0; i < text.size(); i += 2) {
    unsigned value = 0;
    const auto parsed = std::from_chars(text.data() + i, text.data() + i + 2, value, 16);
    if (parsed.ec != std::errc() || parsed.ptr != text.data() + i + 2) return std::nullopt;
    bytes += static_cast<char>(value);
  }
  return bytes;
}

std::string Sign(std::string_view secret, std::string_view claims) {
  std::array<unsigned char, EVP_MAX_MD_SIZE> digest{};
  unsigned size = 0;
  HMAC(EVP_sha256(), secret.data(), static_cast<int>(secret.size()), reinterpret_cast<const unsigned char*>(claims.data()), claims.size(),
       digest.data(), &size);
  return Hex({reinterpret_cast<const char*>(digest.data()), size});
}

Status Wrong(const char* what) {
  return Status(Code::kPermission, std::string(what) + ": let PENSTOCK_TOKEN_FILE name the file that the service was started with");
}

// "expires job", as DeriveToken wrote it: only called once the signature was found good.
std::optional<TokenClaims> ParseClaims(const std::string& text) {
  TokenClaims claims;
  const size_t space = text.find(' ');
  if (space == std::string::npos) return std::nullopt;
  const auto parsed = std::from_chars(text.data(), text.data() + space, claims.expires);
  if (parsed.ec != std::errc() || parsed.ptr != text.data() + space) return std::nullopt;
  claims.job = text.substr(space + 1);
  return claims;
}

}  // namespace

bool SameToken(std::string_view one, std::string_view other) {
  // Digests have one length, so neither the comparison nor its time says anything about the token's.
  const std::string a = Sha256Hex(one), b = Sha256Hex(other);
  return CRYPTO_memcmp(a.data(), b.data(), a.size()) == 0;
}

std::string RandomToken() {
  std::array<unsigned char, 32> bytes{};
  if (RAND_bytes(bytes.data(), static_cast<int>(bytes.size())) != 1) DieOf(Status(Code::kInternal, "the machine gives no random numbers"));
  return Hex({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
}

std::string DeriveToken(std::string_view cluster_token, const TokenClaims& claims) {
  const std::string text = std::to_string(claims.expires) + " " + claims.job;
  return std::string(kPrefix) + Hex(text) + "." + Sign(cluster_token, text);
}

Status CheckClusterToken(std::string_view token) {
  if (token.starts_with(kPrefix)) {
    return Status(Code::kInvalid,
                  "this token was made from the service's own, for a job or a time, and is for those who read: servers, and whoever makes more of "
                  "them, need the service's own, which `penstock token create` without --job and --expires makes");
  }
  if (token.size() < kLeastBytes) {
    return Status(Code::kInvalid, "the token has " + std::to_string(token.size()) + " bytes, and could be guessed: a service's own has at least " +
                                      std::to_string(kLeastBytes) + "; `penstock token create` makes one");
  }
  return {};
}

Result<TokenClaims> CheckToken(std::string_view cluster_token, std::string_view shown, int64_t now) {
  if (shown.empty()) return Wrong("the service asks for a token and none was given");
  if (!shown.starts_with(kPrefix)) {
    if (!SameToken(cluster_token, shown)) return Wrong("the token is wrong");
    return TokenClaims{};
  }
  const size_t dot = shown.rfind('.');
  const auto text = dot < kPrefix.size() ? std::nullopt : FromHex(shown.substr(kPrefix.size(), dot - kPrefix.size()));
  if (!text || !SameToken(Sign(cluster_token, *text), shown.substr(dot + 1))) return Wrong("the token is wrong");
  const auto claims = ParseClaims(*text);
  if (!claims) return Wrong("the token is wrong");
  if (claims->expires != 0 && now >= claims->expires) {
    return Status(Code::kPermission,
                  "the token has expired: make a new one with `penstock token create --expires …`, on a machine that has the service's");
  }
  return *claims;
}

}  // namespace penstock
