// The name of a store, made once: peers refuse a dispatcher of another cluster.
#pragma once

#include <string>

namespace penstock::dispatcher {
std::string NewClusterId();
}  // namespace penstock::dispatcher
