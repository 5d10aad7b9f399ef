// Services that this very process has stopped: nobody has to wait for one to come back.
#pragma once

#include <string>

#include "base/clock.h"
#include "penstock/status.h"

namespace penstock {

// Addresses are HOST:PORT or unix:/path. Any thread.
void NoteStopped(const std::string& address);
// Whether this process has stopped the service at `address` since. Another that came to listen there is none of it.
bool StoppedSince(const std::string& address, TimePoint since);
Status ServiceStopped(const std::string& address);

}  // namespace penstock
