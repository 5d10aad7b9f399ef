#include "worker/shell.h"

#include <algorithm>
#include <utility>

#include "base/caught.h"
#include "base/log.h"
#include "penstock/manifest.h"
#include "penstock/plan.h"
#include "worker/usage.h"

namespace penstock::worker {
namespace {

constexpr uint32_t kQuietAttempts = 6;  // servers start in any order: the first second or two without a dispatcher is no news
constexpr Duration kFetchWithin = std::chrono::seconds(5);
constexpr Duration kFlushEvery = std::chrono::milliseconds(2);
constexpr int kFlushAttempts = 500;
constexpr Duration kAfterRefusal = std::chrono::seconds(1);
constexpr uint32_t kCallsOut = 2;  // an executor: it finds the next when it has done one

Status CheckCode(const Pipeline& pipeline, bool allowed) {
  if (allowed || !pipeline.runs_code()) return {};
  return Status(
      Code::kPermission,
      "the dataset runs code (Python functions, torch datasets or tf.data graphs), and this worker does not; start workers with --allow-code "
      "where you trust everyone who can reach them (`penstock local` allows it)");
}

Result<std::shared_ptr<const Pipeline>> CompileJob(const msg::JobReply& reply, bool allow_code) {
  PENSTOCK_ASSIGN(const Plan plan, ParsePlan(reply.plan));
  PENSTOCK_ASSIGN(const Manifest manifest, ParseManifest(reply.manifest));
  PENSTOCK_ASSIGN(auto pipeline, Pipeline::Compile(plan, manifest, reply.seed));
  PENSTOCK_TRY(CheckCode(*pipeline, allow_code));
  return pipeline;
}

Result<msg::Inputs> ListAndCut(const msg::ListInputs& ask, bool allow_code) {
  PENSTOCK_ASSIGN(const Plan plan, ParsePlan(ask.plan));
  PENSTOCK_ASSIGN(const Manifest manifest, ListInputs(plan));
  PENSTOCK_ASSIGN(const auto pipeline, Pipeline::Compile(plan, manifest, ask.seed));
  PENSTOCK_TRY(CheckCode(*pipeline, allow_code));
  msg::Inputs inputs{.job = ask.job, .manifest = SerializeManifest(manifest), .manifest_hash = {}, .layout = pipeline->layout()};
  inputs.manifest_hash = pipeline->inputs_hash();
  return inputs;
}

}  // namespace

Shell::Shell(IoThread& io, Pool& pool, std::shared_ptr<SegmentTable> table, uint64_t memory, uint32_t packers, CodeRules code, Hooks hooks)
    : io_(io),
      pool_(pool),
      table_(std::move(table)),
      code_(std::move(code)),
      hooks_(std::move(hooks)),
      inbox_(std::make_shared<Inbox>(io, [this](Inbox::Notes notes) { Take(std::move(notes)); })),
      segments_(std::make_shared<JobSegments>(table_, memory)),
      pack_memory_(packers * kPackerBytes),
      lanes_(pool, inbox_, segments_, std::make_shared<Packers>(packers)),
      timer_(io),
      flush_timer_(io),
      alone_timer_(io),
      link_timer_(io) {}

Shell::~Shell() { inbox_->Close(); }

void Shell::Begin(CoreOptions options, std::string dispatcher, ConnectParams params) {
  self_ = options.hello.address;
  options.pack_memory = pack_memory_;
  core_ = std::make_unique<WorkerCore>(std::move(options));
  link_ = DispatcherLink::Make(
      io_, std::move(dispatcher), std::move(params), identity_,
      DispatcherLink::Handler{.up = [this] { OnDispatcherUp(); },
                              .down = [this](const Status& why) { OnDispatcherDown(why); },
                              .refused = [this](const Status& why) { OnDispatcherRefused(why); },
                              .said = [this](RequestId request, Message message) { OnDispatcherSaid(request, std::move(message)); }});
  link_->Start();
}

void Shell::Drain() {
  LogInfo("worker.drain", {{"lanes", core_->stats().lanes}});
  Apply(DrainAsked{});
}

void Shell::Apply(const Event& event) {
  // A member, so that its memory is used again; carrying actions out never comes back here.
  core_->On(Clock::System().Now(), event, actions_);
  for (Action& action : actions_) {
    std::visit([this](auto& a) { Do(a); }, action);
  }
  actions_.clear();
}

void Shell::Take(Inbox::Notes notes) {
  for (Note& note : notes) {
    if (const auto* done = std::get_if<StepDone>(&note.event)) {
      auto memory = note.blocks.begin();
      for (const BlockToken& block : done->made()) blocks_.emplace(block.handle, std::move(*memory++));
    }
    Apply(note.event);
  }
}

// ---- consumers

void Shell::Accept(std::shared_ptr<Session> session) {
  LogDebug("session.open", {{"peer", session->peer()}, {"name", session->peer_hello().name}, {"shm", session->shares_memory()}});
  const SessionOpened opened{session->id(), session->shares_memory(), session->reach() != Reach::kUnixSocket};
  if (session->reach() == Reach::kNetwork) policies_.try_emplace(session->id());
  sessions_.emplace(session->id(), std::move(session));
  Apply(opened);
}

void Shell::OnMessage(Session& session, StreamId stream, RequestId request, Message message) {
  if (request != RequestId{})
    return session.Reply(request, msg::Failed{Status(Code::kInvalid, "a worker takes lanes, not requests: ask the dispatcher")});
  // What is open on the stream stays what it is, as it does for the core: a second word is not heard.
  if (const auto* open = std::get_if<msg::Open>(&message)) {
    opened_.try_emplace({session.id(), stream}, OpenLane{open->job, open->range.lane, open->by_group});
  }
  if (std::holds_alternative<msg::CloseLane>(message)) opened_.erase({session.id(), stream});
  Apply(ConsumerSaid{session.id(), stream, std::move(message)});
}

Result<Extent> Shell::OnBlockComing(Session& /*session*/, StreamId /*stream*/, uint64_t /*bytes*/) {
  return Status(Code::kInvalid, "a worker takes no blocks");
}

void Shell::OnBlock(Session& session, StreamId /*stream*/, Extent /*block*/, uint64_t /*on_wire*/) {
  session.Close(Status(Code::kInvalid, "a worker takes no blocks"));
}

void Shell::OnClosed(Session& session, const Status& why) {
  LogDebug("session.close", {{"peer", session.peer()}, {"why", why.message()}});
  const SessionId id = session.id();
  sessions_.erase(id);
  policies_.erase(id);
  std::erase_if(opened_, [id](const auto& item) { return item.first.first == id; });
  Apply(SessionClosed{id});
}

void Shell::LogLane(LogLevel level, std::string_view event, const SendToConsumer& action, const Status& why) const {
  const auto lane = opened_.find({action.session, action.stream});
  if (lane == opened_.end()) return Log(level, event, {{"why", why.ToString()}});
  const auto name = names_.find(lane->second.job);
  Log(level, event,
      {{"job", name == names_.end() ? std::to_string(Raw(lane->second.job)) : name->second},
       {"epoch", lane->second.lane.epoch},
       {"lane", lane->second.lane.lane},
       {"worker", self_},
       {"why", why.ToString()}});
}

void Shell::Do(SendToConsumer& action) {
  const auto* refused = std::get_if<msg::Refused>(&action.message);
  const auto* failed = std::get_if<msg::LaneFailed>(&action.message);
  if (refused != nullptr) LogLane(LogLevel::kDebug, "lane.refused", action, refused->error);
  if (failed != nullptr) LogLane(LogLevel::kWarn, "lane.failed", action, failed->error);
  const auto lane = opened_.find({action.session, action.stream});
  const bool ended = std::holds_alternative<msg::LaneEnded>(action.message) && lane != opened_.end() && !lane->second.by_group;
  if (lane != opened_.end() && (refused != nullptr || failed != nullptr || ended)) opened_.erase(lane);
  const auto session = sessions_.find(action.session);
  if (session != sessions_.end()) session->second->Send(action.stream, std::move(action.message));
}

// The one way out for rows: a token for one job gets no other's.
bool Shell::MayHave(Session& session, StreamId stream) {
  if (session.only_job().empty()) return true;
  const auto lane = opened_.find({session.id(), stream});
  const auto name = lane == opened_.end() ? names_.end() : names_.find(lane->second.job);
  if (name != names_.end() && name->second == session.only_job()) return true;
  LogWarn("block.refused", {{"peer", session.peer()}, {"worker", self_}, {"why", "its token is for another job"}});
  session.Close(Status(Code::kPermission, "the token is for job '" + session.only_job() + "' alone"));
  return false;
}

void Shell::Do(SendBlock& action) {
  auto block = blocks_.extract(action.handle);
  const auto session = sessions_.find(action.session);
  if (session == sessions_.end() || !MayHave(*session->second, action.stream)) return;
  Transmit(*session->second, action.stream, std::move(block.mapped()), action.how);
}

// The copy is made by the socket: until it is written, the session holds the block, too.
void Shell::Do(SendCopy& action) {
  const auto session = sessions_.find(action.session);
  if (session == sessions_.end() || !MayHave(*session->second, action.stream)) return;
  Transmit(*session->second, action.stream, blocks_.at(action.handle).Share(), Handover::kCopy);
}

void Shell::Transmit(Session& session, StreamId stream, Extent block, Handover how) {
  const auto policy = policies_.find(session.id());
  if (policy != policies_.end()) policy->second.Sent(block.whole_size(), block.packing());
  wire_bytes_ += session.SendBlock(stream, std::move(block), how);
  if (policy == policies_.end() || !policy->second.Look(Clock::System().Now(), session.link_use())) return;
  const LinkJudged judged{session.id(), policy->second.codec()};
  LogDebug("link.judged", {{"peer", session.peer()}, {"codec", Name(judged.codec)}});
  io_.Post([this, judged] { Apply(judged); });  // the core is in the middle of something
}

void Shell::Do(StepLane& action) {
  if (action.codec != PackCodec::kNone && !std::exchange(packs_, true)) segments_->Shrink(pack_memory_);
  lanes_.Step(action);
}

void Shell::Do(ReleaseBlock& action) { blocks_.erase(action.handle); }

// ---- jobs

void Shell::Do(FetchJob& action) {
  link_->Request(msg::GetJob{action.job}, kFetchWithin, [this, job = action.job](Result<Message> answer) {
    if (!answer.ok()) return Apply(JobFailed{job, answer.status()});
    auto* reply = std::get_if<msg::JobReply>(&*answer);
    if (reply == nullptr) return Apply(JobFailed{job, Status(Code::kInternal, "the dispatcher answered GetJob with something else")});
    if (const auto known = lanes_.Find(job)) return TellKnown(job, reply->generation, *known);
    Compile(job, std::move(*reply));
  });
}

void Shell::TellKnown(JobId job, Generation generation, const Pipeline& pipeline) {
  const Layout& layout = pipeline.layout();
  Apply(JobKnown{.job = job,
                 .generation = generation,
                 .group_rows = layout.group_rows(),
                 .state_bytes = layout.state_bytes,
                 .block_target = pipeline.block_target()});
}

void Shell::Compile(JobId job, msg::JobReply reply) {
  pool_.Submit(0, [this, job, reply = std::move(reply)] {
    auto pipeline = Caught([&] { return CompileJob(reply, code_.allowed); });
    std::shared_ptr<JobExecutors> executors;
    if (pipeline.ok() && (*pipeline)->runs_code()) executors = std::make_shared<JobExecutors>(reply.plan, code_.executors, table_);
    io_.Post([this, job, name = reply.name, generation = reply.generation, pipeline = std::move(pipeline), executors = std::move(executors)] {
      names_[job] = name;
      if (!pipeline.ok()) return Apply(JobFailed{job, pipeline.status()});
      lanes_.AddJob(job, name, *pipeline, executors, kCallsOut * code_.executors.processes);
      TellKnown(job, generation, **pipeline);
    });
  });
}

void Shell::Do(ForgetJob& action) {
  lanes_.Forget(action.job);
  names_.erase(action.job);
}

void Shell::Do(ListJobInputs& action) {
  pool_.Submit(0, [this, session = link_->session(), request = action.request, ask = std::move(action.ask)] {
    const std::vector<LogField> about{{"job", ask.name.empty() ? std::to_string(Raw(ask.job)) : ask.name}, {"peer", ask.consumer}};
    const LogScope scope(about);
    auto inputs = Caught([&] { return ListAndCut(ask, code_.allowed); });
    Message reply = inputs.ok() ? Message(std::move(*inputs)) : Message(msg::Failed{inputs.status()});
    io_.Post([this, session, request, reply = std::move(reply)] { link_->Reply(session, request, reply); });
  });
}

// ---- the dispatcher

void Shell::OnDispatcherUp() {
  link_up_ = true;
  failed_attempts_ = 0;
  alone_timer_.Cancel();
  LogInfo("dispatcher.up");
  Apply(DispatcherUp{});
}

void Shell::OnDispatcherDown(const Status& why) {
  hooks_.unreachable(why);
  if (++failed_attempts_ == kQuietAttempts) LogWarn("dispatcher.away", {{"why", why.message()}});
  if (!std::exchange(link_up_, false)) return;
  LogWarn("dispatcher.down", {{"why", why.message()}});
  Apply(DispatcherDown{});
  if (hooks_.exit_when_done == Duration{0}) return;
  if (why.code() == Code::kFinished) return Drain();
  alone_timer_.After(hooks_.exit_when_done, [this] { ExitUnlessReadFrom(); });
}

// A dispatcher that stays away ends nothing while somebody reads.
void Shell::ExitUnlessReadFrom() {
  if (core_->stats().lanes == 0) return Drain();
  alone_timer_.After(hooks_.exit_when_done, [this] { ExitUnlessReadFrom(); });
}

// One of another cluster cannot tell this worker's lanes from its own: their consumers are waited for. With none left, there is nothing that it
// could mistake: jobs that are still known here are unknown there, and forgotten after the first beat.
void Shell::OnDispatcherRefused(const Status& why) {
  OnDispatcherDown(why);
  LogWarn("dispatcher.refused", {{"why", why.message()}, {"lanes", core_->stats().lanes}});
  link_timer_.After(kAfterRefusal, [this] {
    if (core_->stats().lanes == 0) *identity_ = {};
    link_->Start();
  });
}

void Shell::OnDispatcherSaid(RequestId request, Message message) {
  if (std::holds_alternative<msg::WorkerWelcome>(message)) hooks_.welcomed();
  Apply(DispatcherSaid{request, std::move(message)});
}

void Shell::Do(SendToDispatcher& action) {
  if (auto* beat = std::get_if<msg::WorkerBeat>(&action.message)) Beat(*beat);
  link_->Request(std::move(action.message), kHelloWithin, [this](Result<Message> answer) {
    if (answer.ok()) return OnDispatcherSaid(RequestId{}, std::move(*answer));
    LogDebug("dispatcher.no_answer", {{"why", answer.status().message()}});
    hooks_.unreachable(answer.status());
  });
}

void Shell::Beat(msg::WorkerBeat& beat) {
  const Usage usage = ProcessUsage();
  beat.rss = usage.rss;
  beat.cpu_ns = usage.cpu_ns;
  beat.wire_bytes = wire_bytes_;
  if (beat.lanes == 0) segments_->TrimAll();  // nobody reads: give the memory back
}

// ---- time and end

void Shell::Do(SetTimer& action) {
  timer_.After(std::max(action.at - Clock::System().Now(), Duration{0}), [this] { Apply(TimerFired{}); });
}

void Shell::Do(ExitNow& /*action*/) { FlushThenFinish(kFlushAttempts); }

// There is no event for "all is written", and this happens once: so it looks.
void Shell::FlushThenFinish(int attempts) {
  uint64_t unsent = 0;
  for (const auto& [id, session] : sessions_) unsent += session->unsent_bytes();
  if (unsent == 0 || attempts == 0) return hooks_.drained();
  flush_timer_.After(kFlushEvery, [this, attempts] { FlushThenFinish(attempts - 1); });
}

}  // namespace penstock::worker
