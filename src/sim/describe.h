// Messages in words, for traces.
#pragma once

#include <string>

#include "wire/messages.h"

namespace penstock::sim {
std::string Describe(const Message& message);
}  // namespace penstock::sim
