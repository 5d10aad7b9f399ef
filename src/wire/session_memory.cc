// How a session lends blocks in shared memory, and borrows them.
#include "wire/codec.h"
#include "wire/session_impl.h"

namespace penstock {

// True: the peer reads the block where it lies.
bool SessionImpl::Lend(StreamId stream, Extent& block) {
  if (facts_.lends == nullptr || block.tag() == 0 || block.following() != nullptr || block.packed()) return false;
  const SegmentId id = SegmentOf(block.tag());
  auto segment = facts_.lends->Find(id);
  if (segment == nullptr) return false;
  if (announced_.try_emplace(id, segment).second) {
    const msg::SegmentMade made{static_cast<uint32_t>(id), segment->memory().size()};
    pipe_->Queue({{.type = FrameType::kControl}, EncodeMessage(made), {}, segment});
  }
  const auto body = EncodeLent({block.tag(), block.size()});
  const uint64_t tag = block.tag();
  lent_.emplace(tag, Lent{std::move(block), std::move(segment)});
  pipe_->Queue({{.type = FrameType::kLent, .stream = static_cast<uint32_t>(stream)},
                std::string(reinterpret_cast<const char*>(body.data()), body.size()),
                {},
                nullptr});
  return true;
}

Status SessionImpl::OnFreed(const ReturnedExtents& returned) {
  const Status not_lent(Code::kData, "an extent came back that was not lent");
  for (const uint64_t tag : returned.free) {
    if (lent_.erase(tag) == 0) return not_lent;
  }
  for (const uint64_t tag : returned.kept) {
    const auto lent = lent_.find(tag);
    if (lent == lent_.end()) return not_lent;
    lent->second.segment->Retire();  // before the extent goes home, so that it is not handed out again
    lent_.erase(lent);
  }
  return {};
}

// The pool gave these segments up: the peer need not keep them mapped.
void SessionImpl::ForgetSegments() {
  std::erase_if(announced_, [this](const auto& entry) {
    if (!entry.second.expired()) return false;
    Send(StreamId{0}, msg::SegmentGone{static_cast<uint32_t>(entry.first)});
    return true;
  });
}

Status SessionImpl::OnSegmentMade(const msg::SegmentMade& made) {
  Fd fd = pipe_->TakeDescriptor();
  if (borrowed_ == nullptr) return Status(Code::kData, "a segment where no memory is shared");
  if (!fd) return Status(Code::kData, "a segment without its descriptor");
  return borrowed_->Add(SegmentId{made.segment}, made.bytes, std::move(fd));
}

Status SessionImpl::OnLent(const FrameHeader& header, std::span<const std::byte> body) {
  if (borrowed_ == nullptr) return Status(Code::kData, "a block was lent where no memory is shared");
  const LentExtent lent = DecodeLent(body.first<kLentBytes>());
  PENSTOCK_ASSIGN(Extent extent, borrowed_->Borrow(lent.tag, lent.bytes));
  handler_.OnBlock(*this, StreamId{header.stream}, std::move(extent), 0);
  return {};
}

void SessionImpl::SendFreed() {
  if (!open() || borrowed_ == nullptr) return;
  ReturnedExtents returned = borrowed_->TakeReturned();
  if (!returned.empty()) Send(StreamId{0}, msg::Credit{.freed = std::move(returned.free), .kept = std::move(returned.kept)});
}

}  // namespace penstock
