#include "cli/security.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>
#include <variant>

#include "base/constants.h"
#include "base/log.h"
#include "cli/surroundings.h"
#include "cluster/placement.h"
#include "wire/address.h"
#include "wire/token.h"

namespace penstock::cli {
namespace {

constexpr const char* kOpenToAll =
    "it serves other machines and asks nobody for a token: whoever can reach it can read, and run programs on readers that have --allow-code; set "
    "PENSTOCK_TOKEN_FILE to a file with a secret, on servers and trainers alike";

constexpr size_t kMaxTokenFile = 64 * kKiB;

// All of it, or more than `cap` bytes; an error number where that cannot be.
std::variant<std::string, int> ReadUpTo(const std::string& path, size_t cap) {
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return errno;
  std::string content(cap + 1, '\0');
  size_t size = 0;
  int error = 0;
  while (size < content.size()) {
    const ssize_t got = read(fd, content.data() + size, content.size() - size);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) error = errno;
    if (got <= 0) break;
    size += static_cast<size_t>(got);
  }
  close(fd);
  if (error != 0) return error;
  content.resize(size);
  return content;
}

// As files end, and with them the variables that a secret's file is made into.
std::string WithoutLineBreak(std::string token) {
  while (!token.empty() && (token.back() == '\n' || token.back() == '\r')) token.pop_back();
  return token;
}

Result<bool> LetsAnybodyIn(const std::string& listen, const Credentials& credentials) {
  const auto parsed = ParseAddress(listen);
  if (!parsed.ok()) return parsed.status().Prefixed("--listen");
  const auto* tcp = std::get_if<TcpAddress>(&*parsed);
  if (tcp == nullptr || cluster::IsLoopback(tcp->host)) return false;
  const bool asks_for_certificates = credentials.tls != nullptr && credentials.tls->can_serve() && credentials.tls->can_check();
  return credentials.token.empty() && !asks_for_certificates;
}

}  // namespace

void SecurityFlags::Declare(Flags& flags) {
  flags.Text("--token-file", &token_file_, "File with the service's token; default PENSTOCK_TOKEN_FILE or PENSTOCK_TOKEN");
  flags.Text("--tls-ca", &tls_.ca, "PEM file of the authority that peers' certificates are checked against; default PENSTOCK_TLS_CA");
  flags.Text("--tls-cert", &tls_.cert, "PEM file of this process's certificate; default PENSTOCK_TLS_CERT");
  flags.Text("--tls-key", &tls_.key, "PEM file of its key; default PENSTOCK_TLS_KEY");
}

void SecurityFlags::DeclareServing(Flags& flags) {
  Declare(flags);
  flags.Switch("--without-token", &open_to_all_, "Serve other machines though nothing is asked of them; only where the network keeps strangers out");
}

TlsFiles SecurityFlags::tls_files() const {
  return {.ca = tls_.ca.empty() ? Variable("PENSTOCK_TLS_CA") : tls_.ca,
          .cert = tls_.cert.empty() ? Variable("PENSTOCK_TLS_CERT") : tls_.cert,
          .key = tls_.key.empty() ? Variable("PENSTOCK_TLS_KEY") : tls_.key};
}

std::string SecurityFlags::token_file() const { return token_file_.empty() ? Variable("PENSTOCK_TOKEN_FILE") : token_file_; }

Result<Credentials> SecurityFlags::Read() const {
  Credentials credentials;
  PENSTOCK_ASSIGN(credentials.token, ReadToken(token_file_));
  const TlsFiles files = tls_files();
  if (files.empty()) return credentials;
  PENSTOCK_ASSIGN(credentials.tls, Tls::Load(files));
  return credentials;
}

Result<Credentials> SecurityFlags::ReadToServe(const std::string& listen) const {
  PENSTOCK_ASSIGN(Credentials credentials, Read());
  if (!credentials.token.empty()) PENSTOCK_TRY(CheckClusterToken(credentials.token));
  if (!open_to_all_) PENSTOCK_TRY(CheckExposure(listen, credentials));
  PENSTOCK_ASSIGN(const bool anybody, LetsAnybodyIn(listen, credentials));
  if (anybody) LogWarn("security.open", {{"listen", listen}, {"what", kOpenToAll}});
  if (credentials.tls == nullptr || credentials.tls->can_serve()) return credentials;
  return Status(Code::kInvalid, "a server that speaks TLS needs a certificate: give --tls-cert and --tls-key (PENSTOCK_TLS_CERT, PENSTOCK_TLS_KEY)");
}

Result<std::string> ReadToken(const std::string& token_file) {
  const std::string path = token_file.empty() ? Variable("PENSTOCK_TOKEN_FILE") : token_file;
  if (path.empty()) return WithoutLineBreak(Variable("PENSTOCK_TOKEN"));
  const std::string named = std::string(", which ") + (token_file.empty() ? "PENSTOCK_TOKEN_FILE" : "--token-file") + " names";
  auto content = ReadUpTo(path, kMaxTokenFile);
  if (const int* error = std::get_if<int>(&content)) {
    const std::string remedy = *error == EISDIR   ? ": name the file in it that holds the token"
                               : *error == ENOENT ? ": copy the service's there, or make one with `penstock token create --out FILE`"
                                                  : ": let this user read it";
    return Status(Code::kInvalid, "cannot read the token file " + path + " (" + std::strerror(*error) + ")" + named + remedy);
  }
  if (std::get<std::string>(content).size() > kMaxTokenFile) {
    return Status(Code::kInvalid,
                  "the token file " + path + named + ", is larger than 64 KiB, and so no token: `penstock token create --out FILE` makes one");
  }
  std::string token = WithoutLineBreak(std::move(std::get<std::string>(content)));
  if (token.empty()) return Status(Code::kInvalid, "the token file " + path + " is empty; write a token into it");
  return token;
}

Result<std::string> ReadClusterToken(const std::string& token_file) {
  PENSTOCK_ASSIGN(std::string token, ReadToken(token_file));
  if (token.empty()) {
    return Status(Code::kInvalid, "a token for a job or a time is made from the service's own: give --token-file FILE, or set PENSTOCK_TOKEN_FILE");
  }
  PENSTOCK_TRY(CheckClusterToken(token));
  return token;
}

Status CheckExposure(const std::string& listen, const Credentials& credentials) {
  PENSTOCK_ASSIGN(const bool anybody, LetsAnybodyIn(listen, credentials));
  if (!anybody) return {};
  return Status(Code::kInvalid,
                "listening on " + listen +
                    " lets other machines in, and nothing is asked of them: give --token-file FILE (PENSTOCK_TOKEN_FILE), or --tls-cert, "
                    "--tls-key and --tls-ca, or listen on 127.0.0.1");
}

}  // namespace penstock::cli
