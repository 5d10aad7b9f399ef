#include "wire/peer_limits.h"

#include <algorithm>
#include <utility>

namespace penstock {

PeerBook::Place::Place(std::shared_ptr<PeerBook> book, std::string peer) : book_(std::move(book)), peer_(std::move(peer)) {
  Peer& mine = book_->peers_[peer_];
  ++mine.connections;
  ++mine.newcomers;
  ++book_->newcomers_;
}

PeerBook::Place::~Place() {
  Admitted();
  --book_->peers_[peer_].connections;
}

void PeerBook::Place::Admitted() {
  if (!std::exchange(newcomer_, false)) return;
  --book_->peers_[peer_].newcomers;
  --book_->newcomers_;
}

std::shared_ptr<PeerBook::Place> PeerBook::Enter(const std::string& peer, TimePoint now, std::string& why) {
  ForgetIdle(now);
  const auto [at, added] = peers_.try_emplace(peer);
  Peer& mine = at->second;
  const double burst = 2.0 * limits_.per_second;
  const double passed = std::chrono::duration<double>(now - mine.seen).count();
  mine.allowance = added ? burst : std::min(burst, mine.allowance + passed * limits_.per_second);
  mine.seen = now;
  if (mine.connections >= limits_.connections) {
    why = "too many connections from " + peer;
  } else if (mine.newcomers >= limits_.newcomers || newcomers_ >= limits_.all_newcomers) {
    why = "too many connections that have not said hello";
  } else if (mine.allowance < 1) {
    why = "too many new connections a second from " + peer;
  } else {
    mine.allowance -= 1;
    return std::make_shared<Place>(shared_from_this(), peer);
  }
  return nullptr;
}

// Peers without connections whose allowance is whole again say nothing that a new entry would not.
void PeerBook::ForgetIdle(TimePoint now) {
  if (peers_.size() < sweep_at_) return;
  std::erase_if(peers_, [&](const auto& item) { return item.second.connections == 0 && now - item.second.seen > std::chrono::seconds(2); });
  sweep_at_ = std::max<size_t>(1024, 2 * peers_.size());
}

}  // namespace penstock
