// The flags by which a subcommand shows who it is and asks others who they are.
#pragma once

#include <string>

#include "cli/command.h"
#include "penstock/status.h"
#include "wire/net.h"
#include "wire/tls.h"

namespace penstock::cli {

class SecurityFlags {
 public:
  void Declare(Flags& flags);
  void DeclareServing(Flags& flags);  // of servers: --without-token too
  // The flags, else the variables PENSTOCK_TOKEN_FILE, PENSTOCK_TOKEN, PENSTOCK_TLS_CA, _CERT, _KEY.
  Result<Credentials> Read() const;
  // The same for a server, once it is sure that it may listen there with them. Warns where --without-token lets anybody in.
  Result<Credentials> ReadToServe(const std::string& listen) const;
  TlsFiles tls_files() const;
  std::string token_file() const;  // that would be read; "" for none

 private:
  std::string token_file_;
  TlsFiles tls_;
  bool open_to_all_ = false;
};

// The token that the file (of 64 KiB at most) holds; where no file is named, PENSTOCK_TOKEN_FILE's or PENSTOCK_TOKEN; else "". Without the line
// break at its end.
Result<std::string> ReadToken(const std::string& token_file);

// The same, and it is there and is the service's own, from which others are made.
Result<std::string> ReadClusterToken(const std::string& token_file);

// Other machines may come only where they must show a token or a certificate.
Status CheckExposure(const std::string& listen, const Credentials& credentials);

}  // namespace penstock::cli
