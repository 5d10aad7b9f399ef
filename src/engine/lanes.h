// How the rows of one pass are cut into lanes: a function of plan and manifest alone (protocol.md 1).
//
// The rule. A **region** is a part of the plan whose inputs may share lanes: all inputs below a shuffle, else one input. Let T be its bytes.
//   In order:     plain files are cut at clamp(T/64, 1 MiB, 64 MiB); compressed files stay whole. Consecutive pieces fill a lane up to
//                 min(T/64, 64 MiB). So lanes follow the files, and even a small input of many files has about 64 of them.
//   Interleaved:  cut the same; as many lanes as leave 8 files in each, but enough that a lane stays near 64 MiB; consecutive pieces.
//   Shuffled:     plain files are cut 16 times as fine, and the pieces are dealt to lanes by a permutation of each epoch.
//   Counted:      ranges of max(16, rows/64) rows, more where there are several passes (about 256 lanes of all together, at least one of each), less
//                 where that is more than 64 MiB, rounded up to whole batches.
//   Code:         a source that is not native says how many lanes it has.
// A serial plan is one lane over everything.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "engine/graph.h"
#include "engine/operator.h"
#include "penstock/manifest.h"
#include "penstock/status.h"

namespace penstock::engine {

struct Region {
  bool shuffled = false;
  uint32_t cycle = 1;  // files a lane reads in turn
  uint64_t lanes = 0;
  uint64_t max_lane_bytes = 0;  // of input, about
  // Files, or a shuffle over several inputs: pieces, and where each lane's begin.
  std::vector<Piece> pieces;
  std::vector<uint64_t> starts;  // lanes + 1
  // A counted node by itself.
  const Node* counted = nullptr;
  uint64_t lane_rows = 0;

  uint64_t PiecesALane() const { return lanes == 0 ? 0 : pieces.size() / lanes; }
};

class LaneTable {
 public:
  // Errors name the file that cannot be read.
  static Result<LaneTable> Cut(const Graph& graph, const Manifest& manifest);

  uint64_t lanes() const { return lanes_; }  // of one pass; kEndlessLanes
  const std::vector<Region>& regions() const { return regions_; }
  uint32_t mix() const { return mix_; }
  // Equal for equal lanes of the same rows and inputs: counted rows are cut to whole batches, files are not.
  uint64_t cut() const;
  // Files that a batch draws from, at most; 0 where there are none.
  uint64_t files_a_batch() const;
  uint64_t max_lane_bytes() const;

  // What a lane of a pass reads, in order.
  std::vector<Piece> PiecesOf(uint64_t lane, const OrderKey& order) const;

 private:
  std::vector<Region> regions_;
  uint64_t lanes_ = 0;
  uint32_t mix_ = 1;
};

// The files of a source node, by the manifest; an error if it has none.
Result<const SourceInput*> FilesOf(const Manifest& manifest, const Node& node);

}  // namespace penstock::engine
