// Saving a job's position: every live consumer is asked for its part (docs/design/positions.md, "The job's position").
#include <algorithm>
#include <utility>

#include "dispatcher/cohorts.h"
#include "dispatcher/core_impl.h"
#include "dispatcher/terms.h"

namespace penstock::dispatcher {
namespace {

constexpr auto kLongestGather = std::chrono::hours(24);

// Worth asking again, but where a consumer's own word is not: it keeps its code.
Status Unsaved(const Job& job, const std::string& why, Code code = Code::kUnavailable) {
  return Status(code, "the position of " + Named(job) + " was not saved: " + why).With("job", job.name);
}

// What counts of one that answered: what it had at the step. One that asks after its epoch's END has no step in common with those who read on
// (uneven): there it is what each has now, but nothing of later epochs.
Position Counted(const Position& asker, const Position& at, Position now) {
  if (!asker.ended) return at;
  std::erase_if(now.delivered.epochs, [&](const auto& item) { return item.first > asker.epoch; });
  return now;
}

}  // namespace

void DispatcherCore::Impl::OnMessage(SessionId session, RequestId request, const msg::SavePosition& ask) {
  Job* job = FindReading(ask.job, ask.consumer, session, request);
  if (job == nullptr) return;
  if (ask.generation != job->generation) return Fail(session, request, OtherGeneration(*job, ask.generation));
  if (job->mode == Mode::kReplicated) {
    return Fail(session, request, Status(Code::kInvalid, Named(*job) + " is read in mode replicated, which has no position: use mode shared"));
  }
  if (job->mode == Mode::kStrict) return Reply(session, request, msg::SavedPosition{ask.at_tag});
  const auto patience = std::chrono::milliseconds(std::min<uint64_t>(ask.timeout_ms, std::chrono::milliseconds(kLongestGather).count()));
  Gather gather{.job = job->id, .session = session, .request = request, .asker = ask.consumer, .tag = ask.tag, .until = now_ + patience};
  gather.done = DoneIn(*job);
  if (Status status = AddPart(gather, *job, ask.current, ask.at_tag); !status.ok()) return Fail(session, request, std::move(status));
  for (const auto& [id, member] : job->members) {
    if (member.undecided || id == ask.consumer) continue;
    if (member.expired && !job->holds()) continue;  // what it asked for is done, the rest is in the pool
    if (member.expired) {
      return Fail(
          session, request,
          Unsaved(*job, "consumer " + member.name + " is dead and what it delivered last is not known; start it anew, or restore an earlier one"));
    }
    gather.waiting.emplace(id, SessionId{});
  }
  // Of this term: a consumer may still be about to answer one that came before it.
  const uint64_t number = uint64_t{Raw(options_.term)} << 32 | ++gathers_made_;
  gathers_.emplace(number, std::move(gather));
  ContinueGather(number);
}

void DispatcherCore::Impl::OnMessage(SessionId, RequestId, const msg::PartReply& part) {
  auto gather = gathers_.find(part.gather);
  auto job = jobs_.find(part.job);
  if (gather == gathers_.end() || job == jobs_.end() || gather->second.job != part.job) return;
  if (part.generation != job->second.generation || !gather->second.waiting.contains(part.consumer)) return;
  Status status = part.error.ok() ? AddPart(gather->second, job->second, part.current, part.at_tag) : part.error;
  if (!status.ok()) {
    const std::string name = job->second.members.at(part.consumer).name;
    Status refused = Unsaved(job->second, "consumer " + name + " says: " + status.message(), status.code());
    return EndGather(part.gather, std::move(refused).With("consumer", name));  // so that its NotFound is not taken for a lost job
  }
  gather->second.waiting.erase(part.consumer);
  ContinueGather(part.gather);
}

Status DispatcherCore::Impl::AddPart(Gather& gather, const Job& job, const std::string& current, const std::string& at_tag) const {
  PENSTOCK_ASSIGN(Position now, ParsePosition(current));
  PENSTOCK_ASSIGN(Position at, ParsePosition(at_tag));
  PENSTOCK_TRY(CheckState(job, RowsOf(job), at));
  gather.now.push_back(std::move(now));
  gather.at.push_back(std::move(at));
  return {};
}

// Asks whoever was not asked on the session it has now, and answers when nobody is left.
void DispatcherCore::Impl::ContinueGather(uint64_t number) {
  Gather& gather = gathers_.at(number);
  const Job& job = jobs_.at(gather.job);
  for (auto& [id, asked] : gather.waiting) {
    const Consumer& member = job.members.at(id);
    if (member.session == SessionId{} || member.session == asked) continue;
    asked = member.session;
    // Who has had its END may be far behind the others, or before them.
    const bool now = gather.at.front().ended && job.evens() == Even::kUneven;
    out_->sends.push_back({member.session, RequestId{}, msg::PartAsk{gather.job, number, gather.tag, now}});
  }
  if (!gather.waiting.empty()) return;
  Position position = gather.at.front();
  position.kind = Position::Kind::kPosition;
  position.index = 0;
  position.ended = false;
  position.seated_at = 0;
  position.base = {};
  position.consumers = job.consumers;
  position.tag = gather.tag;
  position.delivered = gather.done;
  const uint32_t lanes = job.inputs.layout.lanes;
  for (const Position& now : gather.now) position.delivered.SubtractPart(now.delivered, lanes);
  for (size_t i = 0; i < gather.at.size(); ++i) {
    const Position part = Counted(gather.at.front(), gather.at[i], gather.now[i]);
    position.epoch = std::min(position.epoch, part.epoch);
    position.delivered.MergePart(part.delivered);
  }
  position.delivered.Settle(lanes);
  Reply(gather.session, gather.request, msg::SavedPosition{ToJson(position)});
  gathers_.erase(number);
}

void DispatcherCore::Impl::CheckGathers() {
  std::vector<uint64_t> numbers;
  for (const auto& [number, gather] : gathers_) numbers.push_back(number);
  for (uint64_t number : numbers) {
    const Gather& gather = gathers_.at(number);
    auto job = jobs_.find(gather.job);
    if (job == jobs_.end()) {
      gathers_.erase(number);
      continue;
    }
    Status trouble = GatherTrouble(gather, job->second);
    if (trouble.ok()) {
      ContinueGather(number);
    } else {
      EndGather(number, std::move(trouble));
    }
  }
}

Status DispatcherCore::Impl::GatherTrouble(const Gather& gather, const Job& job) const {
  std::string silent;
  for (const auto& [id, asked] : gather.waiting) {
    const Consumer& member = job.members.at(id);
    if (member.expired) return Unsaved(job, "consumer " + member.name + " died while it was asked for its part; save again when it is back");
    silent += (silent.empty() ? "" : ", ") + member.name;
  }
  if (now_ <= gather.until) return {};
  return Unsaved(job, "these consumers have not come to step " + std::to_string(gather.tag) + " or do not answer: " + silent);
}

void DispatcherCore::Impl::EndGather(uint64_t number, Status error) {
  const auto gather = gathers_.extract(number);
  Fail(gather.mapped().session, gather.mapped().request, std::move(error));
}

// Who is waited for is a member: one that goes takes its part with it.
void DispatcherCore::Impl::FailGathersThatWait(const Job& job, const Consumer& gone) {
  std::vector<uint64_t> numbers;
  for (const auto& [number, gather] : gathers_) {
    if (gather.job == job.id && gather.waiting.contains(gone.id)) numbers.push_back(number);
  }
  for (uint64_t number : numbers) {
    EndGather(number, Unsaved(job, "consumer " + gone.name + " left, or another took its seat, while it was asked for its part; save again"));
  }
}

void DispatcherCore::Impl::FailGathers(JobId job, const Status& error) {
  std::vector<uint64_t> numbers;
  for (const auto& [number, gather] : gathers_) {
    if (gather.job == job) numbers.push_back(number);
  }
  for (uint64_t number : numbers) EndGather(number, error);
}

}  // namespace penstock::dispatcher
