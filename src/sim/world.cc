#include "sim/world.h"

#include <algorithm>
#include <cstdio>
#include <utility>

#include "sim/describe.h"

namespace penstock::sim {
namespace {
constexpr uint64_t kMostAtOnce = 100'000;
}  // namespace

void Node::Fall() {
  up_ = false;
  ++life_;
  world_.BreakAll(*this);
}

void Node::After(Duration delay, std::function<void()> fn) {
  world_.At(world_.now() + delay, [this, life = life_, fn = std::move(fn)] {
    if (life == life_) fn();
  });
}

void World::At(TimePoint when, std::function<void()> fn) { due_.emplace(std::max(when, now()), std::move(fn)); }

bool World::Run(TimePoint limit, const std::function<bool()>& done) {
  while (violations_.empty() && !done()) {
    if (due_.empty() || due_.begin()->first > limit) return false;
    auto next = due_.extract(due_.begin());
    at_once_ = next.key() == now() ? at_once_ + 1 : 0;
    if (at_once_ > kMostAtOnce) Violated("time stands still: something happens over and over");
    clock_.Set(next.key());
    ++events_;
    next.mapped()();
  }
  return violations_.empty();
}

LinkId World::Connect(Node& a, Node& b) {
  const LinkId id{++last_link_};
  links_[id] = {{&a, &b}, {a.life(), b.life()}, {now(), now()}};
  return id;
}

void World::Send(LinkId id, const Node& from, Packet packet) {
  auto it = links_.find(id);
  if (it == links_.end()) return;
  Link& link = it->second;
  const int to = link.ends[0] == &from ? 1 : 0;
  // Mostly quick, now and then slow: sessions overtake each other.
  const Duration delay = random.Percent(3) ? random.Millis(10, 300) : random.Micros(50, 3000);
  link.last[to] = std::max(link.last[to], now() + delay);
  At(link.last[to], [this, id, to, packet = std::move(packet)]() mutable { Deliver(id, to, std::move(packet)); });
}

void World::Deliver(LinkId id, int to, Packet packet) {
  auto it = links_.find(id);
  if (it == links_.end()) return;
  Node& node = *it->second.ends[to];
  if (trace) {
    const std::string from = "<- " + it->second.ends[1 - to]->name() + ": ";
    const std::string stream = packet.stream == StreamId{} ? "" : "stream " + std::to_string(Raw(packet.stream)) + " ";
    if (const auto* message = std::get_if<Message>(&packet.body)) Trace(node, from + stream + Describe(*message));
    if (const auto* block = std::get_if<BlockOnTheWay>(&packet.body)) {
      Trace(node, from + stream + "block [" + std::to_string(block->info.first.seq) + "," + std::to_string(block->info.end.seq) + ")");
    }
  }
  if (node.up() && node.life() == it->second.lives[to]) node.OnPacket(id, std::move(packet));
}

void World::Break(LinkId id) {
  auto it = links_.find(id);
  if (it == links_.end()) return;
  const Link link = it->second;
  links_.erase(it);
  TellDown(link, id, 0);
  TellDown(link, id, 1);
}

void World::TellDown(const Link& link, LinkId id, int end) {
  Node* node = link.ends[end];
  // A clean end is seen at once, a silent one after the silence.
  const Duration delay = random.Percent(80) ? random.Micros(100, 5000) : random.Millis(500, 3500);
  At(now() + delay, [node, id, life = link.lives[end]] {
    if (node->up() && node->life() == life) node->OnLinkDown(id);
  });
}

void World::BreakAll(const Node& node) {
  std::vector<LinkId> mine;
  for (const auto& [id, link] : links_) {
    if (link.ends[0] == &node || link.ends[1] == &node) mine.push_back(id);
  }
  for (LinkId id : mine) Break(id);
}

std::optional<LinkId> World::AnyLink() {
  if (links_.empty()) return std::nullopt;
  return std::next(links_.begin(), static_cast<ptrdiff_t>(random.Below(links_.size())))->first;
}

void World::Trace(const Node& node, const std::string& text) {
  if (!trace) return;
  const double seconds = std::chrono::duration<double>(now().since_start).count();
  std::printf("%10.6f %-12s %s\n", seconds, node.name().c_str(), text.c_str());
}

void World::Violated(const std::string& text) { violations_.push_back(text); }

}  // namespace penstock::sim
