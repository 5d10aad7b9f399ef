// A plan made ready to run, and the running of one of its lanes.
//
// Pipeline is immutable and thread-safe; a worker keeps one a job. LaneRun is used by one thread at a time.
// Rows of a lane are a pure function of (plan, manifest, seed, epoch, replica, lane): design section 3, invariant 1.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <variant>

#include "base/extent.h"
#include "engine/code.h"
#include "penstock/ids.h"
#include "penstock/layout.h"
#include "penstock/manifest.h"
#include "penstock/plan.h"
#include "penstock/status.h"
#include "wire/block.h"

namespace penstock {

struct Produced {
  Extent extent;  // holds the block, checked to be one; its head alone where it is in place
  BlockInfo info;
};
enum class Waits : uint8_t { kBudget, kInput };  // for room in the allocator; for a read under way
struct Blocked {
  Waits on = Waits::kBudget;
  uint64_t bytes = 0;  // kBudget: how many are wanted
};
struct LaneOver {
  Cursor end;               // the cursor after the last row
  bool lane_ended = false;  // false: the range ended before the lane did
};
using StepResult = std::variant<Produced, Blocked, LaneOver, Status>;

class LaneRun {
 public:
  virtual ~LaneRun() = default;
  // Works until a block is complete (never longer than a few milliseconds of rows beyond that), or there is a reason to stop. After Blocked it
  // may be called again; after an error or the lane's end it may not. Pool thread.
  virtual StepResult Step() = 0;
  // After LaneOver that did not end the lane: goes on up to `to` as if it had been asked for that at first.
  virtual void Extend(Seq to) = 0;
  // Bytes held beyond blocks: shuffle buffers, inflate windows, rows on their way into a block.
  virtual uint64_t state_bytes() const = 0;
  // Where it is, in words, for a stalled loop: "read /data/a.gz at 4096".
  virtual std::string where() const = 0;
};

// What one lane is opened with.
struct LaneRequest {
  LaneKey key;
  Cursor from;
  Seq to = kLaneEnd;
  uint64_t block_target = 0;             // bytes; blocks are whole groups, at least one, unless a group alone is larger than block_cap
  uint64_t block_cap = 0;                // bytes; a block is never larger, but a single row may be (it then asks the allocator for just that)
  uint64_t state_cap = 0;                // bytes that operators may hold beyond blocks (a shuffle's buffer); 0: as many as they like
  bool by_group = false;                 // a block is one group, counted from `from`, however large; only the lane's last is smaller
  bool in_place = false;                 // rows that the plan itself carries may stay where they are: the block's head is made, and they follow
  ExtentAllocator* allocator = nullptr;  // outlives the run
  CodeHost* code = nullptr;              // of a plan that runs code; outlives the run
};

class Pipeline {
 public:
  virtual ~Pipeline() = default;
  // Checks plan against manifest; everything that can be refused is refused here.
  static Result<std::shared_ptr<const Pipeline>> Compile(const Plan& plan, const Manifest& manifest, uint64_t seed);

  virtual const Layout& layout() const = 0;
  // Of the manifest and of where lanes end in it (counted rows are cut to whole batches, files are not): equal where lanes and seqs are.
  virtual std::string inputs_hash() const = 0;
  // Some operator is not native: lanes need a host for it, and a step waits for user code.
  virtual bool runs_code() const = 0;
  // Bytes that a block is best made of, where there is memory for many.
  virtual uint64_t block_target() const = 0;
  // How it was cut and why, in words: classes of operators, purity, files a batch draws from.
  virtual std::string explain() const = 0;
  // The cost is at most that of producing the lane up to `from`, and a seek where the input allows one.
  virtual Result<std::unique_ptr<LaneRun>> OpenLane(const LaneRequest& request) const = 0;
};

// Checks a plan by itself, without inputs: operators known, attributes right, specs fit. What register does.
struct PlanFacts {
  Spec row_spec;      // before the last batching
  Spec element_spec;  // what the loop sees: batched columns have a leading dimension (kRagged: its length may differ)
  uint64_t batch = 0;
  bool drop_remainder = false;
  bool pad = false;
  Purity purity = Purity::kPure;
  bool runs_code = false;    // workers want --allow-code for it
  int64_t cardinality = -1;  // elements of one epoch; -1 unknown, -2 endless
  std::string explain;       // a line an operator: class and what it means for lanes
};
Result<PlanFacts> CheckPlan(const Plan& plan);

// Lists the inputs that the plan's sources name (globs expanded, sorted, sizes and times taken). I/O; errors name the file or pattern.
Result<Manifest> ListInputs(const Plan& plan);

}  // namespace penstock
