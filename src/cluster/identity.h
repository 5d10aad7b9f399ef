// Who am I: what the environment of a process says about its place in a cluster.
//
// A process asks a few questions (where is the service, what is my role, which rank of how many am I…). Each is answered on its own, by the
// first source of a fixed order that speaks (precedence.cc holds the one table; docs/reference/environment.md explains it). A winner that
// is malformed is an error: it is never passed over for the next source, because a job that quietly runs without its readers, or with two
// ranks 0, costs more than one that does not start.
//
// Everything here is a pure function of its Inputs. The real environment is read in one place, CurrentEnvironment().
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "penstock/status.h"

namespace penstock::cluster {

// A variable that is set to "" counts as not set.
using Environment = std::map<std::string, std::string>;
Environment CurrentEnvironment();

enum class Role : uint8_t {
  kTrainer,          // consumes: chief, master, worker of a training job
  kDispatcher,       // penstock dispatcher
  kWorker,           // penstock worker, a reader
  kEvaluator,        // reads on its own
  kParameterServer,  // reads nothing
};
std::string_view Name(Role role);
// Only trainers join a training job without being told to; an evaluator in it would take rows away from the ranks.
bool JoinsTraining(Role role);

struct Address {
  std::string host;   // a name or an IP address, IPv6 without brackets
  uint16_t port = 0;  // 0: whichever the process listens on
  friend bool operator==(const Address&, const Address&) = default;
};
std::string ToString(const Address& address);  // "host:port", "[v6]:port"; without port 0

struct NoService {  // there are no readers: datasets come back unchanged, loaders run inline
  friend bool operator==(const NoService&, const NoService&) = default;
};
struct UnixService {
  std::string path;
  friend bool operator==(const UnixService&, const UnixService&) = default;
};
inline constexpr uint32_t kMaxLocalWorkers = 1024;
struct LocalService {  // processes that are started for this program
  uint32_t workers = 2;
  friend bool operator==(const LocalService&, const LocalService&) = default;
};
struct InlineService {  // the plan runs in this process
  friend bool operator==(const InlineService&, const InlineService&) = default;
};
struct OffService {  // datasets are returned untouched
  friend bool operator==(const OffService&, const OffService&) = default;
};
using Service = std::variant<NoService, Address, UnixService, LocalService, InlineService, OffService>;
std::string ToString(const Service& service);  // as PENSTOCK_SERVICE would be written; "none" for NoService

struct Rank {
  uint32_t rank = 0;
  uint32_t world = 1;
  friend bool operator==(const Rank&, const Rank&) = default;
};
std::string ToString(const Rank& rank);  // "1 of 4"

// Who can answer. The order between them differs from question to question: precedence.cc.
enum class Source : uint8_t {
  kArgument,            // an argument, a flag or a subcommand
  kPenstock,            // PENSTOCK_*
  kOriginalKubernetes,  // SPEC_TYPE, MACHINES_CONFIG, JOB_NAME, MY_POD_NAME
  kProcessGroup,        // torch.distributed or jax.distributed, initialised
  kTorchrun,            // RANK, WORLD_SIZE: torchrun, PyTorchJob
  kTfConfig,            // TF_CONFIG: TFJob
  kOriginalSlurm,       // HAS_READERS, TASK_TYPE, SLURM_JOB_NODELIST_HET_GROUP_0
  kKubernetes,          // service variables, downward API
  kIndexedJob,          // JOB_COMPLETION_INDEX, PET_*: Indexed Job, JobSet, TrainJob
  kRay,                 // a Ray that is initialised
  kSlurm,               // SLURM_PROCID, SLURM_STEP_NUM_TASKS
  kDefault,             // nobody spoke
};
std::string_view Name(Source source);

// A source that did not win.
struct Other {
  enum class Kind : uint8_t {
    kOutranked,  // it spoke, a source before it won
    kMalformed,  // so, and what it said is malformed: it would be an error if it were asked first
    kSilent,     // it is there and says why it has no answer
  };
  Kind kind;
  Source source;
  std::string because;  // which variable or field spoke; "" for a silent one
  std::string says;     // its answer, its error, or why it is silent
};

template <class T>
struct Answer {
  Result<T> value;      // an error names the variable, its value and what was expected
  Source source;        // who answered, also with an error
  std::string because;  // from which variables or fields: "TF_CONFIG.task.type"
  std::vector<Other> others;
};

// What only the process itself knows; the caller looks and tells.
struct ProcessGroup {
  std::string library;  // "torch.distributed" | "jax.distributed"
  Rank rank;
};
struct Ray {
  std::string job_id = {};
  std::optional<std::string> dispatcher = {};  // address of the actor penstock-dispatcher, if there is one
};
struct Facts {
  std::optional<ProcessGroup> process_group = {};  // if initialised
  std::optional<Ray> ray = {};                     // if initialised
  std::string hostname = {};
};

struct Arguments {
  std::optional<std::string> service = {};
  std::optional<Role> role = {};
  std::optional<Rank> rank = {};
  std::optional<std::string> advertise = {};
  std::optional<uint16_t> listen_port = {};
  std::optional<std::string> job_name = {};
};

struct Inputs {
  Environment environment = {};
  Arguments arguments = {};
  Facts facts = {};
};

struct Report {
  Answer<Service> service;
  Answer<Role> role;
  Answer<Rank> rank;
  Answer<Address> advertise;     // what a worker tells others
  Answer<uint16_t> listen_port;  // of a dispatcher or worker; 0: any free one
  Answer<std::string> job;       // from kArgument and kPenstock a job's name; else an id of the platform to derive it from; "": anonymous
  Answer<uint32_t> attempt;      // how often the platform has restarted this job
  std::vector<std::string> warnings;
};

// Asks everything and explains everything. Never fails: answers may hold errors.
Report Examine(const Inputs& inputs);

// A server's role in a place where there is nothing to serve: Invalid, with the remedy. Programs that would go on would train in a reader's place.
Status CheckServing(const Report& report);

// A trainer that is one of several by what a platform says, and 0 of 1 because nobody says which: why, with the remedy; "" where all is well. A
// process group that is initialised later may mend it.
std::string Unranked(const Report& report);

struct Identity {
  Service service;
  Role role = Role::kTrainer;
  Rank rank;
  Address advertise;
  uint16_t listen_port = 0;
  std::string job;
  uint32_t attempt = 0;
  Source service_from = Source::kDefault;
  Source role_from = Source::kDefault;
  Source rank_from = Source::kDefault;
  Source job_from = Source::kDefault;
  std::string misplaced;  // what CheckServing says; "" where all is well
  std::vector<std::string> warnings;
};

// The answers alone. An error where one is malformed that this role needs: a server has no use for a rank, a trainer for an address to listen on,
// a dispatcher for the service. What is not needed and malformed has its default.
Result<Identity> Identify(const Inputs& inputs);
Result<Identity> IdentityOf(const Report& report);

// Whether a platform named the service, or started this process: platforms start servers and ranks in any order, and images may take minutes.
bool OnPlatform(const Identity& identity);

}  // namespace penstock::cluster
