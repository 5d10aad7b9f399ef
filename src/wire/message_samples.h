// One of every message, each field other than its default: what is lost on the way shows.
#pragma once

#include <vector>

#include "wire/messages.h"

namespace penstock {

inline std::vector<Message> SampleMessages() {
  const LaneKey lane{Epoch{1}, ReplicaId{2}, LaneId{3}};
  const msg::Range range{lane, {4, 5}, 6, 7};
  const msg::WorkerInfo worker{WorkerId{7}, "host:1", "@socket", "boot", 8, true};
  const msg::Grant grant{range, Fence{9}, WorkerId{10}};
  const msg::Hold hold{lane, {11, 20}, Fence{12}, {13, 14}, true, 15, true};
  const msg::Finish finish{lane, {16, 21}, Fence{17}, {18, 19}, true};
  const Status error = Status(Code::kData, "broken").With("file", "/a").With("offset", 20);
  const std::string blob("\0\xff blob", 7);
  Layout layout{.lanes = 21,
                .serial = true,
                .serial_range = 22,
                .batch = 24,
                .mix = 2,
                .drop_remainder = true,
                .pad = true,
                .purity = Purity::kImpure,
                .state_bytes = 25,
                .row_spec = {}};
  layout.row_spec = TupleOf({DictSpec({{"a", DType::kString, {kRagged, 2}}, {"b", DType::kBFloat16, {}}}), LeafSpec(DType::kInt8, {3})});
  return {
      msg::Hello{1, 2, "token", "consumer", "host:9", "boot", 3, 4, 5, true},
      msg::HelloReply{1, "cluster", Term{2}, true, error},
      msg::Failed{error},
      msg::Done{},
      msg::Register{blob},
      msg::Registered{"dataset"},
      msg::GetDataset{"dataset"},
      msg::DatasetReply{"dataset", blob},
      msg::Join{"dataset", "job", Mode::kReplicated, 1, 2, Even::kUneven, 3, 4, 5, "name", 6, 7, OnRestart::kRestart, OnDeath::kHold, true},
      msg::Joined{JobId{1},
                  ConsumerId{2},
                  Generation{3},
                  Epoch{4},
                  5,
                  Mode::kSharded,
                  6,
                  layout,
                  "hash",
                  {worker, worker},
                  "job",
                  7,
                  8,
                  9,
                  Even::kPad,
                  true,
                  "base",
                  "position",
                  10},
      msg::Beat{JobId{1}, ConsumerId{2}, Generation{3}, 4, Epoch{5}, {hold, hold}, {finish}, 6, true, 7, 8, 9, 10, false, 11, 12, "position", 13, 14,
                15},
      msg::BeatReply{1, Generation{2}, 3, {grant}, {grant, grant}, Epoch{4}, true, true, {worker}, "a worker", false, 5, 6, 7, 8},
      msg::Leave{JobId{1}, ConsumerId{2}, {hold}, {finish, finish}},
      msg::WorkerHello{"host:1", "@socket", "boot", 1, 2, 3, 4, "name", 5},
      msg::WorkerWelcome{WorkerId{1}, 2},
      msg::WorkerBeat{WorkerId{1}, true, 2, 3, 4, 5, 6, 7, 8, {JobId{9}}, 10},
      msg::WorkerBeatReply{false, true, {JobId{1}, JobId{2}}},
      msg::ListInputs{JobId{1}, blob, 2, "train", "host:7"},
      msg::Inputs{JobId{1}, blob, "hash", layout},
      msg::GetJob{JobId{1}},
      msg::JobReply{JobId{1}, "dataset", blob, blob, 2, Mode::kStrict, Generation{3}, "name"},
      msg::Open{JobId{1}, Generation{2}, range, Fence{3}, ConsumerId{4}, 5, true, true, WireCompression::kZstd},
      msg::Credit{1, {2, 3}, true, {4}},
      msg::CloseLane{},
      msg::LaneEnded{{1, 2}, true},
      msg::LaneFailed{error},
      msg::Refused{error},
      msg::SegmentMade{1, 2},
      msg::SegmentGone{1},
      msg::Draining{},
      msg::StatusAsk{},
      msg::StatusReply{"cluster",
                       Term{1},
                       "0.1",
                       {{"job", JobId{1}, "dataset", Mode::kStrict, Epoch{2}, 3, 4, 5, 6, 7, 8, 9, "reading", 10, 11, 12}},
                       {{WorkerId{1}, "host:1", "name", 2, true, 3, 4, 5, 6, 7, 8, 9, 10, "idle", 11}}},
      msg::Restore{JobId{1}, ConsumerId{2}, 3, 4, 5, "state", true, Generation{6}},
      msg::SavePosition{JobId{1}, ConsumerId{2}, Generation{3}, 4, "now", "then", 5},
      msg::SavedPosition{"position"},
      msg::PartAsk{JobId{1}, 2, 3, true},
      msg::PartReply{JobId{1}, ConsumerId{2}, Generation{3}, 4, "now", "then", error},
      msg::Groups{{{{1, 2}, {3, 4}, 5, 6, 10}, {{3, 4}, {7, 0}, 8, 9, 11}}, true},
      msg::Take{{{1, 2}, {3, 0}}, {4, 5}},
  };
}

}  // namespace penstock
