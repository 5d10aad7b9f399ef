#include "client/iterations.h"

#include <openssl/crypto.h>

#include <charconv>
#include <map>
#include <thread>
#include <utility>

namespace penstock {
namespace {

using std::chrono::milliseconds;

constexpr std::chrono::seconds kSaveWithin{60};  // for a dispatcher that is away to come back
constexpr milliseconds kSavePause{50};
// An iteration's state: the number of its epoch, whether it has come to its end, the reader's state.
constexpr char kOpenMark = ' ';
constexpr char kEndedMark = '.';

std::atomic<bool> program_ends = false;

struct Offers {
  std::mutex mutex;
  std::map<std::string, std::weak_ptr<Iterations>> all;
};

// Leaked: TensorFlow's threads may be here when the process ends.
Offers& AllOffers() {
  static auto* offers = new Offers;
  return *offers;
}

Status ProgramEnds() { return Status(Code::kCancelled, "the program ends, and its reader with it"); }

// On a thread of its own, so that who waits for it can be cancelled.
template <class Work>
auto Aside(Work work) {
  std::packaged_task<std::invoke_result_t<Work>()> task([work = std::move(work)]() mutable {
    auto made = work();
    OPENSSL_thread_stop();  // what hashing left to the thread: who waits may end the program before the thread does
    return made;
  });
  auto result = task.get_future();
  std::thread(std::move(task)).detach();
  return result;
}

Result<Iteration::Step> WaitingOr(const Status& error) {
  return error.code() == Code::kDeadline ? Result<Iteration::Step>(Iteration::Waiting{}) : error;
}

// A program that ends does not wait for the dispatcher's word that its readers have left: it may be gone.
void LetGo(std::shared_ptr<Epochs> epochs) {
  if (program_ends) new std::shared_ptr<Epochs>(std::move(epochs));
}

}  // namespace

Iterations::~Iterations() {
  LetGo(std::move(shared_));
  for (std::shared_ptr<Epochs>& epochs : idle_) LetGo(std::move(epochs));
}

Result<std::shared_ptr<Epochs>> Iterations::Take() {
  if (kind_ == Kind::kAlone) {
    std::shared_ptr<Epochs> idle = TakeIdle();
    return idle != nullptr ? idle : JoinNew();
  }
  const std::lock_guard lock(mutex_);  // one joins for all
  if (shared_ == nullptr) {
    PENSTOCK_ASSIGN(shared_, JoinNew());
  }
  return shared_;
}

std::shared_ptr<Epochs> Iterations::TakeIdle() {
  const std::lock_guard lock(mutex_);
  if (idle_.empty()) return nullptr;
  std::shared_ptr<Epochs> epochs = std::move(idle_.back());
  idle_.pop_back();
  return epochs;
}

Result<std::shared_ptr<Epochs>> Iterations::JoinNew() const {
  PENSTOCK_ASSIGN(std::shared_ptr<Reader> reader, join_());
  return std::make_shared<Epochs>(std::move(reader), Epochs::From::kFirst);
}

void Iterations::Return(std::shared_ptr<Epochs> epochs) {
  if (kind_ == Kind::kShared) return;
  const std::lock_guard lock(mutex_);
  idle_.push_back(std::move(epochs));
}

Iteration::~Iteration() {
  *abandoned_ = true;
  run_.reset();
  if (place_.epochs != nullptr && !failed_) {
    all_->Return(std::move(place_.epochs));
  } else {
    LetGo(std::move(place_.epochs));
  }
}

Result<Iteration::Place> Iteration::Open(const std::shared_ptr<Iterations>& all, const std::atomic<bool>& abandoned) {
  PENSTOCK_ASSIGN(std::shared_ptr<Epochs> epochs, all->Take());
  if (abandoned) {  // nobody is there to read an epoch
    all->Return(std::move(epochs));
    return Status(Code::kCancelled, "the iteration was given up");
  }
  PENSTOCK_ASSIGN(const std::optional<uint64_t> number, epochs->Begin());
  if (!number) {
    return Status(Code::kFinished, "job '" + epochs->reader()->job_name() +
                                       "' has no more epochs; distribute with epochs=N for more, or epochs=None for one at each iteration");
  }
  return Place{std::move(epochs), *number};
}

Result<Iteration::Step> Iteration::Next(milliseconds wait) {
  if (ended_ || failed_) return Step(Ended{});
  Result<Step> step = program_ends ? ProgramEnds() : TryNext(wait);
  failed_ = !step.ok();
  ended_ = step.ok() && std::holds_alternative<Ended>(*step);
  return step;
}

Result<Iteration::Step> Iteration::TryNext(milliseconds wait) {
  if (place_.epochs == nullptr) {
    if (!opening_.valid()) opening_ = Aside([all = all_, abandoned = abandoned_] { return Open(all, *abandoned); });
    if (opening_.wait_for(wait) != std::future_status::ready) return Step(Waiting{});
    PENSTOCK_ASSIGN(place_, opening_.get());
  }
  if (run_ != nullptr) {
    const Result<bool> taken = place_.epochs->TakeRow(place_.number, wait);
    if (!taken.ok()) return WaitingOr(taken.status());
    const uint64_t row = next_row_++;
    if (*taken) return Step(Element{run_, row, row + 1, false});
    run_.reset();
  }
  return TakeRun(wait);
}

Result<Iteration::Step> Iteration::TakeRun(milliseconds wait) {
  Result<std::optional<Batch>> batch = place_.epochs->Next(place_.number, wait);
  if (!batch.ok()) return WaitingOr(batch.status());
  if (!batch->has_value()) return Step(Ended{});
  auto shared = std::make_shared<const Batch>(std::move(**batch));
  if (place_.epochs->reader()->layout().batch > 0) {
    const uint64_t rows = shared->rows();
    return Step(Element{std::move(shared), 0, rows, true});
  }
  next_row_ = 1;
  run_ = shared;
  return Step(Element{std::move(shared), 0, 1, false});
}

Result<std::string> Iteration::Save() {
  if (place_.epochs == nullptr) return std::string();
  if (!ended_state_.empty()) return ended_state_;
  StateOptions options;
  options.scope = all_->scope();
  const auto until = std::chrono::steady_clock::now() + kSaveWithin;
  while (true) {
    Result<Epochs::Saved> saved = place_.epochs->StateOf(place_.number, options);
    const bool away = !saved.ok() && saved.status().code() == Code::kUnavailable;
    if (saved.ok()) return std::to_string(Raw(saved->epoch)) + (ended_ ? kEndedMark : kOpenMark) + saved->state;
    if (!away || std::chrono::steady_clock::now() > until || program_ends) return saved.status();
    std::this_thread::sleep_for(kSavePause);
  }
}

Status Iteration::Restore(const std::string& saved) {
  uint32_t epoch = 0;
  const char* end = saved.data() + saved.size();
  const auto [rest, error] = std::from_chars(saved.data(), end, epoch);
  if (error != std::errc() || rest == end) return Status(Code::kInvalid, "this is no state that an iterator of penstock saved");
  PENSTOCK_ASSIGN(std::shared_ptr<Epochs> epochs, all_->Take());
  PENSTOCK_ASSIGN(const std::optional<uint64_t> number, epochs->Resume(std::string(rest + 1, end), Epoch{epoch}));
  ended_ = !number || *rest == kEndedMark;
  ended_state_ = ended_ ? saved : std::string();
  failed_ = false;
  run_.reset();
  place_ = Place{std::move(epochs), number.value_or(0)};
  return {};
}

void Offer(const std::string& name, const std::shared_ptr<Iterations>& iterations) {
  Offers& offers = AllOffers();
  const std::lock_guard lock(offers.mutex);
  std::erase_if(offers.all, [](const auto& offer) { return offer.second.expired(); });
  offers.all[name] = iterations;
}

std::shared_ptr<Iterations> FindOffered(const std::string& name) {
  Offers& offers = AllOffers();
  const std::lock_guard lock(offers.mutex);
  const auto found = offers.all.find(name);
  return found == offers.all.end() ? nullptr : found->second.lock();
}

void EndIterations() { program_ends = true; }

}  // namespace penstock
