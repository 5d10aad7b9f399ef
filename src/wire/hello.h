// What both sides settle before anything else: the version, the token, whether memory is shared. Pure.
#pragma once

#include <string>

#include "penstock/status.h"
#include "wire/net.h"
#include "wire/session.h"
#include "wire/token.h"

namespace penstock {

msg::Hello MakeHello(const ConnectParams& params, bool shared_memory);
struct HelloPeer {
  bool may_share = false;  // it is on this host, with our uid
  bool lacks_tls = false;  // it speaks in plain where TLS is asked for
};
struct HelloAnswer {
  msg::HelloReply reply;  // its error says why not
  TokenClaims claims;     // of the token that was shown
};
HelloAnswer AnswerHello(const ListenParams& params, const msg::Hello& hello, HelloPeer peer);

}  // namespace penstock
