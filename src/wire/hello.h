// What both sides settle before anything else: the version, the token, whether memory is shared. Pure.
#pragma once

#include <string>
#include <string_view>

#include "penstock/status.h"
#include "wire/net.h"
#include "wire/session.h"

namespace penstock {

msg::Hello MakeHello(const ConnectParams& params, bool shared_memory);
// The reply to a hello; its error says why not. `may_share`: the peer is on this host, with our uid.
msg::HelloReply AnswerHello(const ListenParams& params, const msg::Hello& hello, bool may_share);
// The same time for every wrong token.
bool SameToken(std::string_view one, std::string_view other);

}  // namespace penstock
