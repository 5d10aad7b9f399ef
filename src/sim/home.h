// How a process finds its dispatcher: the one that is there, or one of an older term that should not be.
#pragma once

#include <optional>
#include <utility>

#include "base/planted.h"
#include "sim/dispatcher_node.h"
#include "sim/world.h"
#include "wire/dispatcher_link.h"

namespace penstock::sim {

struct Home {
  DispatcherNode& dispatcher;
  DispatcherNode& stale;

  // Connects and says hello; nullopt where nobody is there, or it is not the one that `identity` knows. A process that has not heard of a newer
  // term has no way to tell: it is not led astray.
  std::optional<LinkId> Connect(World& world, Node& from, ServiceIdentity& identity) const {
    const bool astray = stale.up() && identity.term > stale.hello().term && world.random.Percent(50);
    DispatcherNode& there = astray ? stale : dispatcher;
    const std::optional<LinkId> link = world.Connect(from, there, World::Kind::kControl);
    if (!link) return std::nullopt;
    if (astray) world.Count("stale dispatcher met");
    if (Planted(Bug::kStaleTerm)) identity.term = {};
    if (identity.Accept(there.hello(), "sim").ok()) return link;
    world.Break(*link);
    return std::nullopt;
  }
};

}  // namespace penstock::sim
