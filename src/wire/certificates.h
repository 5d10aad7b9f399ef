// When certificates are good, in words. Internal to wire: tls.cc asks.
#pragma once

#include <openssl/ssl.h>

#include <optional>
#include <string>

#include "penstock/status.h"

namespace penstock {

// "expired at 2026-01-02T03:04:05Z", or "is valid only from …", by this machine's clock; nothing where it is good now.
std::optional<std::string> OutOfDate(const X509* certificate);

// Invalid where a process's own certificate, the first of the PEM file, is out of date…
Status CheckOwnDates(const std::string& file);
// …and where all authorities of the file are: beside a new one there may be the one before it.
Status CheckAuthorityDates(const std::string& file);

// Why the chain that the peer showed is not accepted, where that is a matter of time; nothing where it is not. `whose`: "its" or "the client's".
std::optional<std::string> PeerOutOfDate(const SSL* ssl, const std::string& whose);

}  // namespace penstock
