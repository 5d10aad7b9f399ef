// penstock-load: many peers of one server, to measure it by (bench/scale.py, bench/connections.py).
#include <CLI/CLI.hpp>
#include <cstdio>

#include "load/runs.h"

int main(int argc, char** argv) {
  using namespace penstock::load;
  CLI::App app("Many peers of one server");
  app.require_subcommand(1);

  ScaleOptions scale;
  double seconds = 20;
  auto* scale_command = app.add_subcommand("scale", "Workers and consumers that beat each second");
  scale_command->add_option("--dispatcher", scale.dispatcher)->required();
  scale_command->add_option("--workers", scale.workers);
  scale_command->add_option("--consumers", scale.consumers);
  scale_command->add_option("--jobs", scale.jobs);
  scale_command->add_option("--latecomers", scale.latecomers);
  scale_command->add_option("--seconds", seconds);

  LifecycleOptions lifecycles;
  auto* lifecycles_command = app.add_subcommand("lifecycles", "Jobs that are made, read and left");
  lifecycles_command->add_option("--dispatcher", lifecycles.dispatcher)->required();
  lifecycles_command->add_option("--jobs", lifecycles.jobs);
  lifecycles_command->add_option("--at-a-time", lifecycles.at_a_time);

  IdleOptions idle;
  auto* idle_command = app.add_subcommand("idle", "Peers that do nothing, or drip, until the standard input ends");
  idle_command->add_option("--address", idle.address)->required();
  idle_command->add_option("--idle", idle.idle);
  idle_command->add_option("--slow", idle.slow);

  CLI11_PARSE(app, argc, argv);
  if (scale_command->parsed()) {
    scale.time = std::chrono::duration_cast<penstock::Duration>(std::chrono::duration<double>(seconds));
    RunScale(scale);
  }
  if (lifecycles_command->parsed()) RunLifecycles(lifecycles);
  if (!idle_command->parsed()) return 0;
  const penstock::Status status = RunIdle(idle);
  if (!status.ok()) std::fprintf(stderr, "penstock-load: %s\n", status.message().c_str());
  return status.ok() ? 0 : 1;
}
