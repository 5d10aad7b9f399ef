#include "cli/security.h"

#include <fstream>
#include <iterator>
#include <utility>
#include <variant>

#include "cli/surroundings.h"
#include "cluster/placement.h"
#include "wire/address.h"

namespace penstock::cli {

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
  if (!open_to_all_) PENSTOCK_TRY(CheckExposure(listen, credentials));
  if (credentials.tls == nullptr || credentials.tls->can_serve()) return credentials;
  return Status(Code::kInvalid, "a server that speaks TLS needs a certificate: give --tls-cert and --tls-key (PENSTOCK_TLS_CERT, PENSTOCK_TLS_KEY)");
}

Result<std::string> ReadToken(const std::string& token_file) {
  const std::string path = token_file.empty() ? Variable("PENSTOCK_TOKEN_FILE") : token_file;
  if (path.empty()) return Variable("PENSTOCK_TOKEN");
  std::ifstream file(path);
  std::string token{std::istreambuf_iterator<char>(file), {}};
  if (!file) return Status(Code::kInvalid, "cannot read the token file " + path + "; --token-file or PENSTOCK_TOKEN_FILE names it");
  while (!token.empty() && (token.back() == '\n' || token.back() == '\r')) token.pop_back();
  if (token.empty()) return Status(Code::kInvalid, "the token file " + path + " is empty; write a token into it");
  return token;
}

Status CheckExposure(const std::string& listen, const Credentials& credentials) {
  const auto parsed = ParseAddress(listen);
  if (!parsed.ok()) return parsed.status().Prefixed("--listen");
  const auto* tcp = std::get_if<TcpAddress>(&*parsed);
  if (tcp == nullptr || cluster::IsLoopback(tcp->host)) return {};
  const bool asks_for_certificates = credentials.tls != nullptr && credentials.tls->can_serve() && credentials.tls->can_check();
  if (!credentials.token.empty() || asks_for_certificates) return {};
  return Status(Code::kInvalid,
                "listening on " + listen +
                    " lets other machines in, and nothing is asked of them: give --token-file FILE (PENSTOCK_TOKEN_FILE), or --tls-cert, "
                    "--tls-key and --tls-ca, or listen on 127.0.0.1");
}

}  // namespace penstock::cli
