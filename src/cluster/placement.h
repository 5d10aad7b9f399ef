// Where a server listens and what it tells others, once the environment was asked.
//
// A server binds the address it is known by where that is one of this machine's own, so that several fit one host on one port (a TFJob run as
// local processes, several Slurm nodes on one machine). Where it is not (a name that only others can resolve), it binds all interfaces. Where
// nobody knows it by a name it stays on loopback. A dispatcher listens where PENSTOCK_SERVICE says that it is: host, port, or socket.
#pragma once

#include <functional>
#include <string>

#include "cluster/identity.h"

namespace penstock::cluster {

struct Placement {
  std::string listen;     // "host:port", "unix:/path"
  std::string advertise;  // "host" or "host:port"; "": where it listens
};

// Whether this machine has the address that the host's name stands for.
using IsLocal = std::function<bool(const std::string& host)>;
bool IsLocalHost(const std::string& host);

// `listen` is the flag, "" where it was not given; it wins. Invalid where an answer that is needed is malformed: a dispatcher with the flag needs
// none.
Result<Placement> PlaceServer(const Report& report, const std::string& listen, const IsLocal& is_local = IsLocalHost);

// True for addresses, and names of addresses, that only this machine can reach.
bool IsLoopback(const std::string& host);

}  // namespace penstock::cluster
