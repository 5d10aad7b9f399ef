// The half of a reader on the I/O thread: parts, positions, restore.
#include <algorithm>
#include <utility>

#include "client/reader_io.h"

namespace penstock {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kLongestSave = std::chrono::hours(24);

// A dispatcher that has lost the job is told of it again (`rebuild`): until then there is nobody to ask.
Status LostJob(const std::string& job) {
  return Status(Code::kUnavailable,
                "the position of job '" + job + "' was not saved: the dispatcher has lost the job, and is being told of it again");
}

// Not a consumer's word about a step, which it names.
bool IsLostJob(const Status& error) { return error.code() == Code::kNotFound && error.detail("consumer").empty(); }

// A little less, so that its answer, which names whom it waits for, comes in time.
milliseconds WithinFor(milliseconds timeout) { return timeout - std::min(timeout / 10, milliseconds(1000)); }

}  // namespace

void ReaderIo::Begin() {
  hub_.io().Post([self = shared_from_this()] { self->On(event::Begin{}); });
}

msg::Joined ReaderIo::Current() const {
  std::lock_guard lock(current_mutex_);
  return current_;
}

void ReaderIo::SetCurrent(const msg::Joined& joined) {
  std::lock_guard lock(current_mutex_);
  current_ = joined;
}

std::string ReaderIo::StrictJson(const DeliveryLog::Point& point) const {
  Position position = MakePart(facts_, Current(), point);
  position.kind = Position::Kind::kPosition;
  return ToJson(position);
}

void ReaderIo::AnswerParts() {
  if (asks_.empty()) return;
  for (msg::PartReply& reply : asks_.Answer(facts_, Current(), shelf_)) dispatcher_->Tell(std::move(reply));  // who lost it asks again
  parts_asked_ = !asks_.empty();
}

// The I/O thread hears of runs that are taken, and of their rows only where somebody waits for one.
void ReaderIo::HandedOutRow() {
  shelf_.HandedOutRow();
  if (parts_asked_.load(std::memory_order_relaxed)) Post(&ReaderIo::AnswerParts);
}

std::future<Result<std::string>> ReaderIo::Save(const DeliveryLog::Point& current, const DeliveryLog::Point& at_tag, milliseconds timeout) {
  const msg::Joined job = Current();
  const milliseconds patience = std::clamp(timeout, milliseconds(0), kLongestSave);
  msg::SavePosition save{job.job, job.consumer, current.generation, at_tag.tag, PartJson(current), PartJson(at_tag), 0};
  save.timeout_ms = static_cast<uint64_t>(WithinFor(patience).count());
  auto promise = std::make_shared<std::promise<Result<std::string>>>();
  std::future<Result<std::string>> saved = promise->get_future();
  hub_.io().Post([self = shared_from_this(), save = std::move(save), promise, patience, name = job.job_name]() mutable {
    if (self->core_.rebuilding()) return promise->set_value(LostJob(name));
    self->dispatcher_->Request(std::move(save), patience, [promise, name](Result<Message> answer) {
      if (!answer.ok()) return promise->set_value(IsLostJob(answer.status()) ? LostJob(name) : answer.status());
      auto* position = std::get_if<msg::SavedPosition>(&*answer);
      if (position == nullptr) {
        return promise->set_value(Status(Code::kMismatch, "the dispatcher answered with something else; is it of another version?"));
      }
      promise->set_value(std::move(position->position));
    });
  });
  return saved;
}

std::future<Status> ReaderIo::Restore(std::string state) {
  std::promise<Status> promise;
  std::future<Status> done = promise.get_future();
  hub_.io().Post(
      [self = shared_from_this(), state = std::move(state), shared = std::make_shared<std::promise<Status>>(std::move(promise))]() mutable {
        self->FinishRestore(Status(Code::kCancelled, "another restore of this reader has begun"));
        self->restore_promise_ = std::move(*shared);
        self->On(event::Restore{std::move(state)});
      });
  return done;
}

void ReaderIo::GiveUpRestore(Status why) {
  hub_.io().Post([self = shared_from_this(), why = std::move(why)] { self->On(event::GiveUpRestore{why}); });
}

void ReaderIo::SendRestore(msg::Restore restore) {
  // The shelf stands still: nothing is delivered between this and the answer.
  if (restore.rebuild) restore.state = PartJson(*shelf_.Delivered(shelf_.tag().step));  // all that the loop holds, handed out or not
  dispatcher_->Request(std::move(restore), std::chrono::seconds(120), [weak = weak_from_this()](Result<Message> answer) {
    const auto self = weak.lock();
    if (self == nullptr) return;
    if (!answer.ok()) return self->On(event::RestoreRefused{answer.status()});
    self->OnDispatcher(std::move(answer));
  });
}

void ReaderIo::FinishRestore(Status outcome) {
  if (auto promise = std::exchange(restore_promise_, std::nullopt)) promise->set_value(std::move(outcome));
}

}  // namespace penstock
