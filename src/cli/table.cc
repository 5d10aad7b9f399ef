#include "cli/command.h"

namespace penstock::cli {

const std::vector<CommandEntry>& Commands() {
  static const std::vector<CommandEntry> commands = {
      {"dispatcher", "Keeps datasets, jobs and lanes; one a service", "penstock dispatcher --listen 127.0.0.1:5050 --state-dir /var/lib/penstock",
       MakeDispatcher},
      {"worker", "Reads lanes and sends their blocks to consumers", "penstock worker --dispatcher 127.0.0.1:5050 --memory 4GiB", MakeWorker},
      {"local", "A dispatcher and workers on this machine, for as long as a command runs", "penstock local --workers 2 -- python train.py",
       MakeLocal},
      {"status", "Jobs and workers of a service", "penstock status --dispatcher 127.0.0.1:5050", MakeStatus},
      {"read", "Reads files, or takes part in a job, and shows rows and speed",
       "penstock read '/data/*.tfrecord.gz' --parse id:int64 --parse words:string[] -n 3 --json", MakeRead},
      {"doctor", "What this process's surroundings say, and whether all is there to run", "penstock doctor --env", MakeDoctor},
      {"tfjob", "Runs a TFJob manifest as processes of this machine, as the operator would", "penstock tfjob run job.yaml", MakeTfJob},
      {"token", "Makes tokens: the service's, or from it one for a job or a time", "penstock token create --job train --expires 12h --token-file F",
       MakeToken},
      {"version", "The version of this executable", "penstock version --json", MakeVersion},
  };
  return commands;
}

}  // namespace penstock::cli
