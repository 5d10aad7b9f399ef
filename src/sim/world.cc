#include "sim/world.h"

#include <algorithm>
#include <cstdio>
#include <utility>

#include "base/constants.h"
#include "sim/describe.h"

namespace penstock::sim {
namespace {
constexpr uint64_t kMostAtOnce = 100'000;
constexpr int64_t kMillion = 1'000'000;
}  // namespace

// ---- nodes

void Node::SkewClock(Duration ahead, int64_t millionths) {
  ahead_ = ahead;
  rate_ = kMillion + millionths;
}

TimePoint Node::Now() const { return {ahead_ + world_.now().since_start * rate_ / kMillion}; }

void Node::Fall() {
  up_ = false;
  ++life_;
  paused_until_ = {};
  asleep_.clear();
  world_.BreakAll(*this);
}

void Node::After(Duration delay, std::function<void()> fn) {
  if (!up_) return;  // it went down in the middle of what wanted this
  // Rounded up: a timer never fires before its time.
  const Duration passes = rate_ == kMillion ? delay : delay * kMillion / rate_ + Duration{1};
  world_.At(world_.now() + passes, [this, life = life_, fn = std::move(fn)]() mutable {
    if (life == life_) WhenAwake(life, std::move(fn));
  });
}

void Node::WhenAwake(uint64_t life, std::function<void()> fn) {
  if (life != life_) return;
  if (world_.now() >= paused_until_ && asleep_.empty()) return fn();
  asleep_.push_back(std::move(fn));
  if (asleep_.size() == 1) Wake();
}

void Node::Wake() {
  if (world_.now() < paused_until_) {
    return world_.At(paused_until_, [this, life = life_] {
      if (life == life_) Wake();
    });
  }
  const uint64_t life = life_;
  while (life == life_ && !asleep_.empty()) {
    const std::function<void()> next = asleep_.front();
    next();
    if (life == life_) asleep_.pop_front();
  }
}

void Node::Pause(Duration time) {
  if (!up_) return;
  world_.Trace(*this, "is stopped for " + std::to_string(std::chrono::duration_cast<std::chrono::milliseconds>(time).count()) + " ms");
  paused_until_ = world_.now() + time;
  if (time <= kSilence) return;
  world_.At(world_.now() + kSilence, [this, life = life_] {
    if (life == life_) world_.BreakAll(*this);
  });
}

// ---- time

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

// ---- network

std::optional<LinkId> World::Connect(Node& a, Node& b, Kind kind) {
  if (!b.up() || a.side != b.side) return std::nullopt;
  const LinkId id{++last_link_};
  links_[id] = {{&a, &b}, {a.life(), b.life()}, {now(), now()}, kind};
  return id;
}

void World::Send(LinkId id, const Node& from, Packet packet) {
  auto it = links_.find(id);
  if (it == links_.end()) return;
  const int to = it->second.ends[0] == &from ? 1 : 0;
  if (it->second.kind == Kind::kControl) return SendWord(id, it->second, to, std::move(packet));
  SendInOrder(id, it->second, to, std::move(packet));
}

void World::SendWord(LinkId id, Link& link, int to, Packet packet) {
  // A dataset is registered before anything else is said, and a saved position rests on the session's order: what its asker says of lanes after
  // it must not come before it.
  const auto* message = std::get_if<Message>(&packet.body);
  const bool spared = message != nullptr && (std::holds_alternative<msg::Register>(*message) || std::holds_alternative<msg::SavePosition>(*message));
  if (!spared && random.Percent(faults.lose)) return Count("word lost");
  if (!spared && random.Percent(faults.repeat)) {
    Count("word repeated");
    SendLate(id, link, to, packet);
  }
  if (!spared && random.Percent(faults.delay)) {
    Count("word late");
    return SendLate(id, link, to, std::move(packet));
  }
  SendInOrder(id, link, to, std::move(packet));
}

void World::SendInOrder(LinkId id, Link& link, int to, Packet packet) {
  // Mostly quick, now and then slow: sessions overtake each other.
  const Duration delay = random.Percent(3) ? random.Millis(10, 300) : random.Micros(50, 3000);
  link.last[to] = std::max(link.last[to], now() + delay);
  At(link.last[to], [this, id, to, packet = std::move(packet)]() mutable { Deliver(id, to, std::move(packet)); });
}

// After others, never before those that were sent before it.
void World::SendLate(LinkId id, const Link& link, int to, Packet packet) {
  At(std::max(link.last[to], now()) + random.Millis(1, 4000),
     [this, id, to, packet = std::move(packet)]() mutable { Deliver(id, to, std::move(packet)); });
}

void World::Deliver(LinkId id, int to, Packet packet) {
  auto it = links_.find(id);
  if (it == links_.end()) return;
  Node& node = *it->second.ends[to];
  if (tracing()) TracePacket(node, *it->second.ends[1 - to], packet);
  if (!node.up() || node.life() != it->second.lives[to]) return;
  node.WhenAwake(node.life(), [this, &node, id, packet = std::move(packet)]() mutable {
    if (links_.contains(id)) node.OnPacket(id, std::move(packet));
  });
}

void World::Break(LinkId id, How how) {
  auto it = links_.find(id);
  if (it == links_.end()) return;
  const Link link = it->second;
  links_.erase(it);
  TellDown(link, id, 0, how);
  TellDown(link, id, 1, how);
}

void World::TellDown(const Link& link, LinkId id, int end, How how) {
  Node* node = link.ends[end];
  // A clean end is seen at once, a silent one after the silence.
  const bool clean = how == How::kAny && random.Percent(80);
  const Duration delay = clean ? random.Micros(100, 5000) : random.Millis(500, 3500);
  At(now() + delay, [node, id, life = link.lives[end]] {
    if (!node->up() || node->life() != life) return;
    node->WhenAwake(life, [node, id] { node->OnLinkDown(id); });
  });
}

void World::BreakAll(const Node& node, How how) {
  std::vector<LinkId> mine;
  for (const auto& [id, link] : links_) {
    if (link.ends[0] == &node || link.ends[1] == &node) mine.push_back(id);
  }
  for (LinkId id : mine) Break(id, how);
}

void World::BreakAcross() {
  std::vector<LinkId> across;
  for (const auto& [id, link] : links_) {
    if (link.ends[0]->side != link.ends[1]->side) across.push_back(id);
  }
  for (LinkId id : across) Break(id, How::kSilent);
}

void World::BreakControl(uint64_t percent) {
  std::vector<LinkId> chosen;
  for (const auto& [id, link] : links_) {
    if (link.kind == Kind::kControl && random.Percent(percent)) chosen.push_back(id);
  }
  for (LinkId id : chosen) Break(id);
}

std::optional<LinkId> World::AnyLink() {
  if (links_.empty()) return std::nullopt;
  return std::next(links_.begin(), static_cast<ptrdiff_t>(random.Below(links_.size())))->first;
}

// ---- words

void World::TracePacket(const Node& node, const Node& from, const Packet& packet) {
  const std::string text = "<- " + from.name() + ": " + (packet.stream == StreamId{} ? "" : "stream " + std::to_string(Raw(packet.stream)) + " ");
  if (const auto* message = std::get_if<Message>(&packet.body)) Trace(node, text + Describe(*message));
  if (const auto* block = std::get_if<BlockOnTheWay>(&packet.body)) {
    Trace(node, text + "block [" + std::to_string(block->info.first.seq) + "," + std::to_string(block->info.end.seq) + ")");
  }
}

void World::Trace(const Node& node, const std::string& text) {
  if (!tracing()) return;
  char when[64];
  std::snprintf(when, sizeof(when), "%10.6f %-12s ", std::chrono::duration<double>(now().since_start).count(), node.name().c_str());
  trace_.Add(when + text);
}

void World::Violated(const std::string& text) { violations_.push_back(text); }

}  // namespace penstock::sim
