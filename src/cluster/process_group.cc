// torch.distributed or jax.distributed, once the program has initialised it. Bindings look; this only judges.
#include "cluster/detectors.h"

namespace penstock::cluster {

Opinion<Place> ProcessGroupRank(const Inputs& in) {
  const auto& group = in.facts.process_group;
  if (!group) return {};
  return {Place{group->rank.rank, group->rank.world}, group->library};
}

}  // namespace penstock::cluster
