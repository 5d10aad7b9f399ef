#include "engine/code_run.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "base/constants.h"
#include "engine/seal.h"

namespace penstock::engine {
namespace {

constexpr uint64_t kInputBlock = 256 * kKiB;  // of rows that a program is fed
constexpr int kAttempts = 2;                  // at code that takes its executor down

class CodeRun final : public LaneRun {
 public:
  CodeRun(LanePlan plan, const LaneRequest& request) : plan_(std::move(plan)), request_(request), program_(*plan_.root), next_(request.from) {
    plan_.context.pieces = &plan_.pieces;
    request_.block_target = std::max<uint64_t>(request.block_target, 1);
    request_.block_cap = std::max(request.block_cap, request_.block_target);
  }

  StepResult Step() override {
    for (;;) {
      if (Status status = Advance(); !status.ok()) {
        if (!MayRetry(status)) return InLane(request_, AsTold(std::move(status)));
        Restart();
        continue;
      }
      if (ready_->rows == 0) return LaneOver{std::exchange(ready_, std::nullopt)->end, ended_};
      StepResult result = Emit();
      auto* status = std::get_if<Status>(&result);
      if (status == nullptr || !status->detail("lane").empty()) return result;
      if (!MayRetry(*status)) return InLane(request_, AsTold(std::move(*status)));
      Restart();
    }
  }

  void Extend(Seq to) override {
    request_.to = std::max(request_.to, to);
    input_over_ = false;
    if (input_ != nullptr) input_->Extend(request_.to);
  }

  uint64_t state_bytes() const override { return held_bytes_ + (input_ == nullptr ? 0 : input_->state_bytes()); }
  std::string where() const override {
    const std::string code = "user code at seq " + std::to_string(next_.seq);
    const std::string input = input_ == nullptr ? std::string() : input_->where();
    return input.empty() ? code : code + ", " + input;
  }

 private:
  // Brings `ready_` about: rows to write, or the end.
  Status Advance() {
    if (lane_ == nullptr) PENSTOCK_TRY(Open());
    Extent input;
    if (!ready_.has_value()) TakeRoom();
    while (!ready_.has_value()) {
      const CodeRoom room{last_.rows, last_.lengths, last_places_, room_};
      PENSTOCK_ASSIGN(CodeRows rows, lane_->Fill(Want(), input.empty() ? nullptr : &input, input_over_, room_.empty() ? nullptr : &room));
      if (rows.written && (room_.empty() || !IsLikeLast(rows))) return Status(Code::kExecutor, "the executor wrote a block that had no room");
      input.Reset();
      held_bytes_ = rows.held_bytes;
      if (rows.again) continue;
      if (rows.hungry && !input_over_) {
        PENSTOCK_TRY(Feed(input));
        continue;
      }
      if (rows.rows == 0) {
        PENSTOCK_TRY(input_failed_);  // told when all rows before were
        ended_ = rows.ended && (input_ == nullptr || input_ended_);
      }
      ready_ = std::move(rows);
    }
    return {};
  }

  // Of a source's blocks most are like the one before: then memory for the next is there before it is asked for. Whoever steps has room for one.
  void TakeRoom() {
    room_.Reset();
    if (program_.input != nullptr || last_places_.empty()) return;
    Result<Extent> extent = request_.allocator->Allocate(last_bytes_);
    if (extent.ok()) room_ = std::move(*extent);
  }

  bool IsLikeLast(const CodeRows& rows) const {
    return rows.rows == last_.rows && rows.has_cursors == last_.has_cursors && rows.lengths == last_.lengths;
  }

  // Two that are alike, and a third is expected to be so.
  void Remember(const CodeRows& rows, const BlockPlan& block) {
    last_places_.clear();
    if (IsLikeLast(rows)) last_places_ = block.places;
    last_ = rows;
    last_bytes_ = block.header.total_bytes;
  }

  CodeWant Want() const {
    const uint64_t phase = request_.by_group ? 0 : (program_.keeps_rows ? next_.seq : emitted_) % plan_.group_rows;
    return {request_.block_target, request_.block_cap, plan_.group_rows, phase, request_.by_group, request_.to};
  }

  Status Open() {
    CodeOpen open{.nodes = program_.nodes, .seed = plan_.context.order.seed, .key = request_.key, .from = next_, .input = {}};
    if (program_.input != nullptr) open.input = std::make_shared<const Spec>(program_.input->spec());
    open.key.lane = plan_.context.order.lane;
    if (program_.source != nullptr && !plan_.context.serial) {
      const std::vector<Piece> pieces = plan_.context.PiecesOf(*program_.source_node);
      if (pieces.size() != 1) return Status(Code::kInternal, "a lane of a source of code has " + std::to_string(pieces.size()) + " pieces");
      open.lane = static_cast<uint32_t>(pieces.front().begin);
      open.lanes = program_.source->lanes;
    }
    PENSTOCK_ASSIGN(lane_, plan_.context.code->Open(open));
    if (program_.input == nullptr) return {};
    LanePlan plan = plan_;
    plan.root = program_.input;
    plan.spec = open.input;
    plan.group_rows = 1;
    LaneRequest request = request_;
    request.from = {next_.seq, 0};
    request.by_group = false;
    request.block_target = std::min(kInputBlock, request_.block_cap);
    request.allocator = &plan_.context.code->scratch();
    input_ = MakeLaneRun(std::move(plan), request);
    return {};
  }

  Status Feed(Extent& input) {
    StepResult result = input_->Step();
    if (auto* produced = std::get_if<Produced>(&result)) {
      input = std::move(produced->extent);
    } else if (auto* over = std::get_if<LaneOver>(&result)) {
      input_over_ = true;
      input_ended_ = over->lane_ended;
    } else if (auto* status = std::get_if<Status>(&result)) {
      input_over_ = true;
      input_failed_ = std::move(*status);
    } else {
      return Status(Code::kInternal, "memory that has no budget has no room");
    }
    return {};
  }

  StepResult Emit() {
    const CodeRows& rows = *ready_;
    BlockPlan block = PlanBlock(rows.rows, rows.first, rows.end, rows.has_cursors, rows.lengths);
    const uint64_t bytes = block.header.total_bytes;
    CodeWritten written;
    if (rows.written) {
      written = *rows.written;
    } else {
      Result<Extent> extent = request_.allocator->Allocate(bytes);
      if (!extent.ok()) return NoRoom(request_, extent.status(), rows.first.seq, rows.rows, bytes);
      room_ = std::move(*extent);
      PENSTOCK_ASSIGN(written, lane_->Write(block.places, room_));
    }
    if (written.crcs.size() == block.places.size()) {
      SealBlock(block, written.crcs, room_.bytes());
    } else {
      SealBlock(block, room_.bytes());
    }
    if (const auto view = CheckBlock(*plan_.spec, room_.bytes()); !view.ok()) {
      return Status(Code::kExecutor, "the executor wrote a damaged block: " + view.status().message());
    }
    const BlockInfo info{rows.rows, rows.first, rows.end, bytes, block.header.digest};
    next_ = rows.end;
    emitted_ += rows.rows;
    attempts_ = 0;
    Remember(rows, block);
    ready_.reset();
    return Produced{std::move(room_), info};
  }

  // An executor that is gone is replaced; code that takes it down each time is not.
  bool MayRetry(const Status& status) {
    if (status.code() != Code::kUnavailable) return false;
    return status.detail("guilty") != "1" || ++attempts_ < kAttempts;
  }

  // To the loop it is the code's failure, not the service's.
  static Status AsTold(Status status) {
    if (status.code() != Code::kUnavailable) return status;
    Status told(Code::kExecutor, status.message());
    for (const Detail& detail : status.details()) {
      if (detail.name != "guilty") told = std::move(told).With(detail.name, detail.value);
    }
    return told;
  }

  void Restart() {
    room_.Reset();
    lane_.reset();
    input_.reset();
    ready_.reset();
    input_over_ = input_ended_ = false;
    input_failed_ = {};
    held_bytes_ = 0;
  }

  LanePlan plan_;
  LaneRequest request_;
  const Program program_;
  Cursor next_;  // the first row that is in no block yet
  uint64_t emitted_ = 0;
  std::unique_ptr<LaneRun> input_;
  bool input_over_ = false;
  bool input_ended_ = false;
  Status input_failed_;
  std::unique_ptr<CodeLane> lane_;
  std::optional<CodeRows> ready_;
  bool ended_ = false;
  Extent room_;    // of the block that is being made; only within a step
  CodeRows last_;  // of the block before
  uint64_t last_bytes_ = 0;
  std::vector<BufferPlace> last_places_;  // none: the next is not expected to be like it
  uint64_t held_bytes_ = 0;
  int attempts_ = 0;
};

}  // namespace

Program::Program(const Node& top) {
  const Node* node = &top;
  for (;;) {
    const CodeTraits& traits = *node->op->code();
    nodes.push_back(node->plan_node);
    keeps_rows = keeps_rows && (traits.keeps_rows || traits.lanes > 0);
    if (traits.lanes > 0) {
      source = &traits;
      source_node = node;
      break;
    }
    node = &node->input();
    if (node->op->code() == nullptr) {
      input = node;
      break;
    }
  }
  std::reverse(nodes.begin(), nodes.end());
}

std::unique_ptr<LaneRun> MakeCodeRun(LanePlan plan, const LaneRequest& request) { return std::make_unique<CodeRun>(std::move(plan), request); }

}  // namespace penstock::engine
