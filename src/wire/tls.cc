#include "wire/tls.h"

#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509err.h>
#include <openssl/x509v3.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <optional>

#include "wire/certificates.h"

namespace penstock {
namespace {

constexpr const char* kAnyServer = "penstock";
constexpr unsigned char kHandshakeRecord = 0x16;
constexpr size_t kRecord = 16 * 1024;  // the most that one record holds

using Context = std::unique_ptr<SSL_CTX, decltype(&SSL_CTX_free)>;
using Connection = std::unique_ptr<SSL, decltype(&SSL_free)>;

std::string LastError() {
  std::array<char, 256> text{};
  const unsigned long error = ERR_peek_last_error();
  ERR_error_string_n(error, text.data(), text.size());
  const char* reason = ERR_reason_error_string(error);
  return reason != nullptr ? reason : text.data();
}

// A program's copy of OpenSSL belongs to penstock alone: no configuration of the machine's, nothing run at exit.
void SetUpOnce() {
  static const int done = OPENSSL_init_ssl(OPENSSL_INIT_NO_LOAD_CONFIG | OPENSSL_INIT_NO_ATEXIT, nullptr);
  (void)done;
}

// The peer's certificate was not accepted here.
Status JudgePeer(const SSL* ssl, bool client, long verified) {
  if (const auto wrong = PeerOutOfDate(ssl, client ? "its" : "the client's")) {
    return Status(Code::kPermission, *wrong + ": renew it there" + (client ? " (--tls-cert), and start that server again" : "") +
                                         "; if it is good, look at the clocks of both machines");
  }
  const std::string why = X509_verify_cert_error_string(verified);
  return Status(Code::kPermission, client
                                       ? "its certificate is not from the authority of PENSTOCK_TLS_CA (" + why + "): let both sides use the same one"
                                       : "the client's certificate is not from the authority of --tls-ca (" + why + ")");
}

// The service does not accept the certificate that this process showed.
Status JudgeOwn(SSL* ssl, int reason) {
  const X509* own = SSL_get_certificate(ssl);
  const auto wrong = own == nullptr ? std::nullopt : OutOfDate(own);
  if (wrong || reason == SSL_R_SSLV3_ALERT_CERTIFICATE_EXPIRED) {
    return Status(Code::kPermission, "the service does not accept this process's certificate, which " + wrong.value_or("has expired by its clock") +
                                         ": renew the one that PENSTOCK_TLS_CERT names, and start this process again");
  }
  return Status(Code::kPermission,
                "the service does not accept this certificate (" + LastError() + "): let PENSTOCK_TLS_CERT name one from its authority");
}

// Alerts about the receiver's certificate. Trying again with the same brings the same.
bool RefusesCertificate(int reason) {
  constexpr std::array kReasons = {SSL_R_TLSV1_ALERT_UNKNOWN_CA,          SSL_R_SSLV3_ALERT_BAD_CERTIFICATE,
                                   SSL_R_SSLV3_ALERT_CERTIFICATE_EXPIRED, SSL_R_SSLV3_ALERT_CERTIFICATE_REVOKED,
                                   SSL_R_SSLV3_ALERT_CERTIFICATE_UNKNOWN, SSL_R_SSLV3_ALERT_UNSUPPORTED_CERTIFICATE};
  return std::find(kReasons.begin(), kReasons.end(), reason) != kReasons.end();
}

// What a failed handshake or a fatal alert means to the person who set it up.
Status Judge(SSL* ssl, bool client) {
  const long verified = SSL_get_verify_result(ssl);
  if (verified != X509_V_OK) return JudgePeer(ssl, client, verified);
  const int reason = ERR_GET_REASON(ERR_peek_last_error());
  if (client && (reason == SSL_R_TLSV13_ALERT_CERTIFICATE_REQUIRED || reason == SSL_R_SSLV3_ALERT_HANDSHAKE_FAILURE)) {
    return Status(Code::kPermission, "the service asks for a certificate: let PENSTOCK_TLS_CERT and PENSTOCK_TLS_KEY name one from its authority");
  }
  if (client && RefusesCertificate(reason)) return JudgeOwn(ssl, reason);
  if (client && reason == SSL_R_WRONG_VERSION_NUMBER) {
    return Status(Code::kPermission, "it does not speak TLS: start it with --tls-cert and --tls-key, or unset PENSTOCK_TLS_CA");
  }
  if (!client && reason == SSL_R_PEER_DID_NOT_RETURN_A_CERTIFICATE) return Status(Code::kPermission, "the client showed no certificate");
  if (!client && RefusesCertificate(reason)) {
    return Status(Code::kPermission,
                  "the client does not accept this server's certificate (" + LastError() + "): let both sides use the same authority");
  }
  return Status(client ? Code::kUnavailable : Code::kPermission, "the TLS handshake failed: " + LastError());
}

class TlsStream final : public ByteStream {
 public:
  // `host`: that a client asked for; none for a server.
  TlsStream(Connection ssl, std::optional<std::string> host) : ssl_(std::move(ssl)), client_(host.has_value()), host_(std::move(host).value_or("")) {}

  Result<Step> Shake(int fd) override {
    if (!begun_) {
      if (!client_) {
        unsigned char first = 0;
        const ssize_t peeked = recv(fd, &first, 1, MSG_PEEK | MSG_DONTWAIT);
        if (peeked < 0 && (errno == EAGAIN || errno == EINTR)) return Step::kWantsRead;
        if (peeked == 1 && first != kHandshakeRecord) plain_ = PlainStream();
      }
      begun_ = true;
      SSL_set_fd(ssl_.get(), fd);
    }
    if (plain_ != nullptr) return Step::kDone;
    ERR_clear_error();
    const int result = client_ ? SSL_connect(ssl_.get()) : SSL_accept(ssl_.get());
    if (result == 1) return Finish();
    switch (SSL_get_error(ssl_.get(), result)) {
      case SSL_ERROR_WANT_READ: return Step::kWantsRead;
      case SSL_ERROR_WANT_WRITE: return Step::kWantsWrite;
      case SSL_ERROR_SYSCALL: return Status(Code::kUnavailable, "the connection was closed during the TLS handshake");
      default: return Judge(ssl_.get(), client_);
    }
  }

  Moved Read(int fd, std::span<iovec> into, std::vector<Fd>& descriptors) override {
    if (plain_ != nullptr) return plain_->Read(fd, into, descriptors);
    size_t total = 0;
    for (const iovec& piece : into) {
      for (size_t at = 0; at < piece.iov_len;) {
        size_t got = 0;
        ERR_clear_error();
        const int result = SSL_read_ex(ssl_.get(), static_cast<char*>(piece.iov_base) + at, piece.iov_len - at, &got);
        if (result != 1) return total > 0 ? Moved{total, 0} : Stopped(result);
        at += got;
        total += got;
      }
    }
    return {total, 0};
  }

  Moved Write(int fd, std::span<iovec> from, int descriptor_beside) override {
    if (plain_ != nullptr) return plain_->Write(fd, from, descriptor_beside);
    size_t total = 0;
    size_t piece = 0;
    size_t at = 0;
    while (piece < from.size()) {
      const std::span<const char> record = NextRecord(from, piece, at);
      size_t put = 0;
      ERR_clear_error();
      const int result = SSL_write_ex(ssl_.get(), record.data(), record.size(), &put);
      if (result != 1) return total > 0 ? Moved{total, 0} : Stopped(result);
      total += put;
      for (at += put; piece < from.size() && at >= from[piece].iov_len; ++piece) at -= from[piece].iov_len;
    }
    return {total, 0};
  }

  bool holds_bytes() const override { return plain_ == nullptr && SSL_pending(ssl_.get()) > 0; }
  bool secure() const override { return plain_ == nullptr; }

  Status Explain(int error) const override {
    if (error == EPROTO) return failure_;
    return PlainStream()->Explain(error);
  }

 private:
  // The bytes from `at` in `piece` on: in place where they fill a record, else gathered. Asked again after a short write it begins with the same
  // bytes and has at least as many, which is what OpenSSL demands.
  std::span<const char> NextRecord(std::span<const iovec> from, size_t piece, size_t at) {
    const char* begin = static_cast<const char*>(from[piece].iov_base) + at;
    if (from[piece].iov_len - at >= kRecord) return {begin, kRecord};
    gathered_.clear();
    for (; piece < from.size() && gathered_.size() < kRecord; ++piece, at = 0) {
      const size_t take = std::min(kRecord - gathered_.size(), from[piece].iov_len - at);
      gathered_.append(static_cast<const char*>(from[piece].iov_base) + at, take);
    }
    return {gathered_.data(), gathered_.size()};
  }

  Moved Stopped(int result) {
    switch (SSL_get_error(ssl_.get(), result)) {
      case SSL_ERROR_WANT_READ:
      case SSL_ERROR_WANT_WRITE: return {};
      case SSL_ERROR_ZERO_RETURN: return {0, EPIPE};
      case SSL_ERROR_SYSCALL: return {0, errno != 0 ? errno : EPIPE};
      default: failure_ = Judge(ssl_.get(), client_); return {0, EPROTO};
    }
  }

  Result<Step> Finish() {
    if (!client_) return Step::kDone;
    const std::unique_ptr<X509, decltype(&X509_free)> shown(SSL_get1_peer_certificate(ssl_.get()), X509_free);
    const bool named = X509_check_host(shown.get(), host_.data(), host_.size(), 0, nullptr) == 1 ||
                       X509_check_ip_asc(shown.get(), host_.c_str(), 0) == 1 || X509_check_host(shown.get(), kAnyServer, 0, 0, nullptr) == 1;
    if (named) return Step::kDone;
    return Status(Code::kPermission,
                  "its certificate is neither for " + host_ + " nor for 'penstock': issue one whose subjectAltName has DNS:penstock");
  }

  Connection ssl_;
  const bool client_;
  const std::string host_;
  bool begun_ = false;
  std::unique_ptr<ByteStream> plain_;  // a peer that does not speak TLS
  std::string gathered_;
  Status failure_;
};

class Loaded final : public Tls {
 public:
  Loaded(Context context, const TlsFiles& files) : context_(std::move(context)), serves_(!files.cert.empty()), checks_(!files.ca.empty()) {}

  bool can_serve() const override { return serves_; }
  bool can_check() const override { return checks_; }

  std::unique_ptr<ByteStream> Client(const std::string& host) const override {
    Connection ssl(SSL_new(context_.get()), SSL_free);
    SSL_set_verify(ssl.get(), SSL_VERIFY_PEER, nullptr);
    SSL_set_tlsext_host_name(ssl.get(), host.c_str());
    return std::make_unique<TlsStream>(std::move(ssl), host);
  }

  std::unique_ptr<ByteStream> Server(bool certificate_required) const override {
    Connection ssl(SSL_new(context_.get()), SSL_free);
    const int mode = certificate_required ? SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT : SSL_VERIFY_PEER;
    SSL_set_verify(ssl.get(), checks_ ? mode : SSL_VERIFY_NONE, nullptr);
    return std::make_unique<TlsStream>(std::move(ssl), std::nullopt);
  }

 private:
  Context context_;
  const bool serves_;
  const bool checks_;
};

// OpenSSL's own word for a file that is not there is "system lib".
Status CheckReadable(const std::string& what, const char* variable, const std::string& file) {
  if (file.empty()) return {};
  const std::unique_ptr<FILE, decltype(&fclose)> opened(fopen(file.c_str(), "re"), fclose);
  if (opened != nullptr && fgetc(opened.get()) != EOF) return {};
  const std::string why = opened == nullptr || ferror(opened.get()) != 0 ? std::strerror(errno) : "it is empty";
  return Status(Code::kInvalid, "cannot read the TLS " + what + " " + file + " (" + why + "): " + variable + " names a PEM file of this machine");
}

Status CheckReadable(const TlsFiles& files) {
  PENSTOCK_TRY(CheckReadable("authority", "--tls-ca or PENSTOCK_TLS_CA", files.ca));
  PENSTOCK_TRY(CheckReadable("certificate", "--tls-cert or PENSTOCK_TLS_CERT", files.cert));
  return CheckReadable("key", "--tls-key or PENSTOCK_TLS_KEY", files.key);
}

Status WrongFile(const std::string& what, const std::string& file) {
  return Status(Code::kInvalid, "cannot use " + file + " as the TLS " + what + ": " + LastError());
}

Status WrongKey(const TlsFiles& files) {
  const int reason = ERR_GET_LIB(ERR_peek_last_error()) == ERR_LIB_X509 ? ERR_GET_REASON(ERR_peek_last_error()) : 0;
  if (reason != X509_R_KEY_VALUES_MISMATCH && reason != X509_R_KEY_TYPE_MISMATCH) return WrongFile("key", files.key);
  return Status(Code::kInvalid, "the TLS key " + files.key + " is not that of the certificate " + files.cert +
                                    ": name two that were made together (--tls-cert and --tls-key, or PENSTOCK_TLS_CERT and PENSTOCK_TLS_KEY)");
}

}  // namespace

Result<std::shared_ptr<const Tls>> Tls::Load(const TlsFiles& files) {
  SetUpOnce();
  if (files.cert.empty() != files.key.empty()) {
    return Status(Code::kInvalid,
                  "a TLS certificate and its key go together: give both --tls-cert and --tls-key (PENSTOCK_TLS_CERT, PENSTOCK_TLS_KEY)");
  }
  PENSTOCK_TRY(CheckReadable(files));
  ERR_clear_error();
  Context context(SSL_CTX_new(TLS_method()), SSL_CTX_free);
  SSL_CTX_set_min_proto_version(context.get(), TLS1_3_VERSION);
  SSL_CTX_set_mode(context.get(), SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER | SSL_MODE_RELEASE_BUFFERS);
  SSL_CTX_set_options(context.get(), SSL_OP_IGNORE_UNEXPECTED_EOF);
  SSL_CTX_set_session_cache_mode(context.get(), SSL_SESS_CACHE_OFF);
  SSL_CTX_set_num_tickets(context.get(), 0);
  SSL_CTX_set_default_passwd_cb(context.get(), [](char*, int, int, void*) { return 0; });  // a server asks nobody for a key's password
  if (!files.ca.empty() && SSL_CTX_load_verify_file(context.get(), files.ca.c_str()) != 1) return WrongFile("authority", files.ca);
  if (!files.cert.empty()) {
    if (SSL_CTX_use_certificate_chain_file(context.get(), files.cert.c_str()) != 1) return WrongFile("certificate", files.cert);
    if (SSL_CTX_use_PrivateKey_file(context.get(), files.key.c_str(), SSL_FILETYPE_PEM) != 1) return WrongKey(files);
  }
  if (!files.ca.empty()) PENSTOCK_TRY(CheckAuthorityDates(files.ca));
  if (!files.cert.empty()) PENSTOCK_TRY(CheckOwnDates(files.cert));
  return std::shared_ptr<const Tls>(std::make_shared<Loaded>(std::move(context), files));
}

}  // namespace penstock
