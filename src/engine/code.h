// Code that is not native: Python functions, torch datasets, tf.data graphs. The engine says what is to be run and where the rows go; a host
// runs it: an executor of the worker, or, for `inline`, this process.
//
// A **program** is consecutive code operators of a plan. It begins with a source of its own, or is fed blocks of native rows. Its rows are kept
// by the host until the memory of their block is there; then they are written straight into it: the one copy.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/extent.h"
#include "penstock/ids.h"
#include "penstock/spec.h"
#include "penstock/status.h"
#include "wire/block.h"

namespace penstock {

// What a lane of a program is opened with.
struct CodeOpen {
  std::vector<uint32_t> nodes;  // of the plan, in the order in which rows pass them
  uint64_t seed = 0;            // of this pass
  LaneKey key;
  uint32_t lane = 0;                  // of a source that cuts itself: which part…
  uint32_t lanes = 1;                 // …of how many
  Cursor from;                        // rows before it are not wanted
  std::shared_ptr<const Spec> input;  // of the rows that it is fed; null: it has a source
};

// How far to work for the next block.
struct CodeWant {
  uint64_t target = 0;      // bytes; then up to the end of the group
  uint64_t cap = 0;         // bytes; more only for a single row
  uint64_t group_rows = 1;  // blocks are whole groups where they can be
  uint64_t phase = 0;       // rows of the group that are out already
  bool by_group = false;    // a block is one group, however large; only the lane's last is smaller
  Seq to = kLaneEnd;        // source rows from here on are not wanted yet
};

struct CodeWritten {
  std::vector<uint32_t> crcs;  // CRC-32C of each buffer, where whoever copied them has taken it; else none
};

// Rows that wait to be written.
struct CodeRows {
  uint64_t rows = 0;
  Cursor first;
  Cursor end;                          // where the next begins; without rows: how far the program has come
  bool has_cursors = false;            // rows were filtered or multiplied: the block has a buffer of their cursors, its first
  std::vector<uint64_t> lengths;       // of the columns' buffers
  bool hungry = false;                 // no rows: it wants a block of input
  bool ended = false;                  // no rows, and none will come
  bool again = false;                  // no rows yet, and it works on: ask again
  uint64_t held_bytes = 0;             // beyond the block
  std::optional<CodeWritten> written;  // they are in the block that was given for them, and do not wait
};

// Memory for a block that will be like another, given before its rows are there.
struct CodeRoom {
  uint64_t rows = 0;
  std::span<const uint64_t> lengths;
  std::span<const BufferPlace> places;
  const Extent& block;
};

// One lane of a program. One thread at a time. Errors: Executor (the code raised; the lane is over), Unavailable (the executor is gone; open it
// again at its cursor; detail "guilty" is "1" where this lane's own code was being run).
class CodeLane {
 public:
  virtual ~CodeLane() = default;
  // Works until a block is complete, more input is needed, `to` or the end is reached. Rows that are not written yet are told again.
  // `input`: rows to go on with, as a block; it is done with when the call returns. `input_over`: there are no more.
  // `room`: where there are just as many rows with buffers just as long, they may be written there at once, which saves a call. Not beside input.
  virtual Result<CodeRows> Fill(const CodeWant& want, const Extent* input, bool input_over, const CodeRoom* room) = 0;
  // Copies the rows that Fill told to their places in `block`, and forgets them.
  virtual Result<CodeWritten> Write(std::span<const BufferPlace> places, const Extent& block) = 0;
};

// Where the code of one job runs. Any thread; outlives its lanes.
class CodeHost {
 public:
  virtual ~CodeHost() = default;
  virtual Result<std::unique_ptr<CodeLane>> Open(const CodeOpen& open) = 0;
  // Memory that the code can see, for blocks of input.
  virtual ExtentAllocator& scratch() = 0;
};

}  // namespace penstock
