// One question to a service.
#pragma once

#include <string>

#include "penstock/status.h"
#include "wire/messages.h"
#include "wire/net.h"

namespace penstock::cli {

// Connects, asks, leaves. Unavailable or Deadline where nobody answers; not from an I/O thread.
Result<Message> AskDispatcher(const std::string& address, const Credentials& credentials, Message question);
Result<msg::StatusReply> AskStatus(const std::string& address, const Credentials& credentials);

}  // namespace penstock::cli
