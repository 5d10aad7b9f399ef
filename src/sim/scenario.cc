#include "sim/scenario.h"

#include "sim/random.h"

namespace penstock::sim {

Scenario Scenario::FromSeed(uint64_t seed) {
  Random random(Hash(seed, 17, 4));
  Scenario s;
  s.seed = seed;
  s.mode = random.Percent(25) ? Mode::kReplicated : Mode::kShared;
  s.layout.serial = random.Percent(20);
  s.layout.lanes = s.layout.serial ? 1 : static_cast<uint32_t>(random.Percent(5) ? 0 : random.Between(1, 24));
  s.layout.mix = random.Percent(30) ? static_cast<uint32_t>(random.Between(2, 3)) : 1;
  s.layout.batch = random.Percent(10) ? 0 : s.layout.mix * random.Between(1, 6);
  if (s.layout.batch == 0) s.layout.mix = 1;
  s.layout.serial_range = s.layout.serial ? s.layout.group_rows() * random.Between(1, 8) : 0;
  s.layout.row_spec = LeafSpec(DType::kInt64, {});
  s.lane_rows = s.layout.serial ? random.Between(0, 300) : random.Between(0, 40);
  s.epochs = static_cast<uint32_t>(random.Between(1, 3));
  s.workers = static_cast<uint32_t>(random.Between(1, 3));
  s.consumers = static_cast<uint32_t>(random.Between(1, 5));
  s.declared = random.Percent(40);
  s.shared_memory = random.Percent(50);
  s.row_bytes = random.Between(100, 4000);
  // Room for a few lanes a worker at least: all that is asked for can be served, if slowly.
  const uint64_t group_bytes = s.row_bytes * (s.layout.group_rows() + 1);
  s.worker_memory = group_bytes * random.Between(64, 256);
  s.reader_memory = group_bytes * (s.layout.mix + 1) * random.Between(2, 24);
  if (random.Percent(15)) return s;  // a quiet run: everything is exact
  s.calm_after_ms = random.Between(200, 20000);
  s.break_links = random.Percent(60);
  s.crash_dispatcher = random.Percent(50);
  s.crash_workers = random.Percent(50);
  s.drain_workers = random.Percent(30);
  s.crash_consumers = random.Percent(30);
  s.cut_off = random.Percent(20);
  s.breaks = random.Percent(20);
  return s;
}

uint64_t Scenario::RowsOf(const LaneKey& lane) const {
  const uint64_t mixed = Hash(seed, Raw(lane.epoch), Raw(lane.lane));
  return layout.serial ? lane_rows : mixed % (lane_rows + 1);
}

std::string Scenario::ToString() const {
  std::string text = "mode=" + std::string(Name(mode)) + " lanes=" + std::to_string(layout.lanes) + (layout.serial ? " serial" : "") +
                     " batch=" + std::to_string(layout.batch) + " mix=" + std::to_string(layout.mix) + " lane_rows<=" + std::to_string(lane_rows) +
                     " epochs=" + std::to_string(epochs) + " workers=" + std::to_string(workers) + " consumers=" + std::to_string(consumers) +
                     (declared ? " declared" : "") + (shared_memory ? " shm" : " tcp");
  for (const auto& [on, name] : {std::pair{break_links, "break_links"},
                                 {crash_dispatcher, "crash_dispatcher"},
                                 {crash_workers, "crash_workers"},
                                 {drain_workers, "drain_workers"},
                                 {crash_consumers, "crash_consumers"},
                                 {cut_off, "cut_off"},
                                 {breaks, "breaks"}}) {
    if (on) text += std::string(" ") + name;
  }
  return text;
}

}  // namespace penstock::sim
