// TLS 1.3 on the one port (docs/security.md).
//
// Certificates come from an authority of the cluster's own. A client accepts a server whose certificate that authority issued for the host it
// asked for, or for the name "penstock": workers are reached by addresses that no certificate could know. A server with an authority accepts
// clients whose certificate it issued; one that has a token too asks for the token alone.
// Unix sockets stay plain: the kernel says who the peer is.
#pragma once

#include <memory>
#include <string>

#include "penstock/status.h"
#include "wire/stream.h"

namespace penstock {

// PEM files; "" where there is none.
struct TlsFiles {
  std::string ca;    // the authorities that peers' certificates are checked against
  std::string cert;  // this process's own, with those between it and the authority
  std::string key;
  bool empty() const { return ca.empty() && cert.empty() && key.empty(); }
};

// Loaded once, shared by all connections of a process.
class Tls {
 public:
  // Invalid names the file and what is wrong with it. A certificate needs its key, and the other way round. One that has expired is refused: it is
  // read once, so no peer would ever accept this process, and each would say so in its own words, far from here.
  static Result<std::shared_ptr<const Tls>> Load(const TlsFiles& files);
  virtual ~Tls() = default;

  virtual bool can_serve() const = 0;  // has a certificate
  virtual bool can_check() const = 0;  // has an authority
  virtual std::unique_ptr<ByteStream> Client(const std::string& host) const = 0;
  // A peer that speaks in plain is served in plain, and secure() says so: it can be told what it lacks.
  virtual std::unique_ptr<ByteStream> Server(bool certificate_required) const = 0;
};

}  // namespace penstock
