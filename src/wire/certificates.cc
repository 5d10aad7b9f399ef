#include "wire/certificates.h"

#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/x509.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <ctime>
#include <memory>
#include <vector>

namespace penstock {
namespace {

using Certificate = std::unique_ptr<X509, decltype(&X509_free)>;

std::string TimeText(const ASN1_TIME* time) {
  std::tm parts{};
  if (ASN1_TIME_to_tm(time, &parts) != 1) return "an unknown time";
  std::array<char, 32> text{};
  std::strftime(text.data(), text.size(), "%Y-%m-%dT%H:%M:%SZ", &parts);
  return text.data();
}

std::string SubjectOf(const X509* certificate) {
  std::array<char, 256> text{};
  X509_NAME_oneline(X509_get_subject_name(certificate), text.data(), text.size());
  return text.data();
}

// What is wrong with each certificate of a PEM file. Whether the file is one was looked at before.
std::vector<std::optional<std::string>> OutOfDateIn(const std::string& file) {
  std::vector<std::optional<std::string>> wrong;
  const std::unique_ptr<FILE, decltype(&fclose)> opened(fopen(file.c_str(), "re"), fclose);
  while (opened != nullptr) {
    const Certificate next(PEM_read_X509(opened.get(), nullptr, nullptr, nullptr), X509_free);
    if (next == nullptr) break;
    wrong.push_back(OutOfDate(next.get()));
  }
  ERR_clear_error();  // of the end of the file
  return wrong;
}

Status Old(const std::string& what, const std::string& file, const std::string& wrong, const char* named) {
  return Status(Code::kInvalid,
                "the TLS " + what + " " + file + " " + wrong + ", and nobody would accept it: renew it, and let " + named + " name the new one");
}

}  // namespace

std::optional<std::string> OutOfDate(const X509* certificate) {
  if (X509_cmp_current_time(X509_get0_notAfter(certificate)) < 0) return "expired at " + TimeText(X509_get0_notAfter(certificate));
  if (X509_cmp_current_time(X509_get0_notBefore(certificate)) > 0) return "is valid only from " + TimeText(X509_get0_notBefore(certificate)) + " on";
  return std::nullopt;
}

Status CheckOwnDates(const std::string& file) {
  const auto wrong = OutOfDateIn(file);
  if (wrong.empty() || !wrong.front()) return {};
  return Old("certificate", file, *wrong.front(), "--tls-cert or PENSTOCK_TLS_CERT");
}

Status CheckAuthorityDates(const std::string& file) {
  const auto wrong = OutOfDateIn(file);
  const bool all = std::all_of(wrong.begin(), wrong.end(), [](const auto& one) { return one.has_value(); });
  if (wrong.empty() || !all) return {};
  return Old("authority", file, *wrong.back(), "--tls-ca or PENSTOCK_TLS_CA");
}

std::optional<std::string> PeerOutOfDate(const SSL* ssl, const std::string& whose) {
  const STACK_OF(X509)* chain = SSL_get0_verified_chain(ssl);  // as far as it was built
  for (int i = 0; chain != nullptr && i < sk_X509_num(chain); ++i) {
    const X509* certificate = sk_X509_value(chain, i);
    const auto wrong = OutOfDate(certificate);
    if (!wrong) continue;
    if (i == 0) return whose + " certificate " + *wrong;
    return "the authority " + SubjectOf(certificate) + " of " + whose + " certificate " + *wrong;
  }
  return std::nullopt;
}

}  // namespace penstock
