#include "base/sha256.h"

#include <openssl/evp.h>

#include <array>

#include "penstock/status.h"

namespace penstock {
namespace {

void Check(int openssl_result) {
  if (openssl_result != 1) DieOf(Status(Code::kInternal, "OpenSSL refuses SHA-256"));
}

}  // namespace

struct Sha256::Context {
  EVP_MD_CTX* evp = EVP_MD_CTX_new();
  ~Context() { EVP_MD_CTX_free(evp); }
};

Sha256::Sha256() : context_(std::make_unique<Context>()) { Check(EVP_DigestInit_ex(context_->evp, EVP_sha256(), nullptr)); }
Sha256::~Sha256() = default;

void Sha256::Add(std::string_view bytes) { Check(EVP_DigestUpdate(context_->evp, bytes.data(), bytes.size())); }

void Sha256::AddNumber(uint64_t number) {
  std::array<char, 8> bytes{};
  for (char& byte : bytes) {
    byte = static_cast<char>(number & 0xFF);
    number >>= 8;
  }
  Add({bytes.data(), bytes.size()});
}

std::string Sha256::Hex() {
  std::array<unsigned char, EVP_MAX_MD_SIZE> digest{};
  unsigned int length = 0;
  Check(EVP_DigestFinal_ex(context_->evp, digest.data(), &length));
  static constexpr char kDigits[] = "0123456789abcdef";
  std::string hex;
  for (unsigned int i = 0; i < length; ++i) {
    hex += kDigits[digest[i] >> 4];
    hex += kDigits[digest[i] & 15];
  }
  return hex;
}

std::string Sha256Hex(std::string_view bytes) {
  Sha256 sha;
  sha.Add(bytes);
  return sha.Hex();
}

}  // namespace penstock
