#include "dispatcher/terms.h"

namespace penstock::dispatcher {
namespace {

Status Differs(const Job& job, const std::string& what, const std::string& has, const std::string& asked) {
  return Status(Code::kMismatch, Named(job) + " has " + what + " " + has + ", this join asks for " + asked + ": use the same, or another job name")
      .With("job", job.name);
}

std::string_view NameOf(Even even) {
  switch (even) {
    case Even::kAuto: return "auto";
    case Even::kDrop: return "drop";
    case Even::kPad: return "pad";
    case Even::kUneven: return "uneven";
  }
  return "?";
}

}  // namespace

std::string Named(const Job& job) { return "job '" + job.name + "'"; }

Status CompareTerms(const Job& job, const msg::Join& join) {
  if (job.mode != join.mode) return Differs(job, "mode", std::string(Name(job.mode)), std::string(Name(join.mode)));
  if (job.seed != join.seed) return Differs(job, "seed", std::to_string(job.seed), std::to_string(join.seed));
  if (job.epochs != join.epochs) return Differs(job, "epochs", std::to_string(job.epochs), std::to_string(join.epochs));
  if (job.even != join.even) return Differs(job, "even", std::string(NameOf(job.even)), std::string(NameOf(join.even)));
  if (join.places != 0 && job.places != join.places) return Differs(job, "places", std::to_string(job.places), std::to_string(join.places));
  return {};
}

Status OtherConsumers(const Job& job, uint32_t declared) {
  return Status(Code::kMismatch, Named(job) + " has consumers " + std::to_string(job.consumers) + ", this reader declares " +
                                     std::to_string(declared) +
                                     ": declare the same, restore a position to go on with another number, or use another job name")
      .With("job", job.name);
}

Status OtherGeneration(const Job& job, Generation generation) {
  return Status(Code::kStale, Named(job) + " was restored to generation " + std::to_string(Raw(job.generation)) +
                                  "; this consumer reads generation " + std::to_string(Raw(generation)));
}

Status OtherDataset(const Job& job, const std::string& dataset, const std::string& difference) {
  if (difference.empty()) return Differs(job, "dataset", job.dataset, dataset);
  return Status(Code::kMismatch, Named(job) + " reads another dataset: " + difference + "; give all its consumers the same, or use another job name")
      .With("job", job.name)
      .With("difference", difference);
}

Status NotAsRestored(const Job& job) {
  return Status(Code::kMismatch, Named(job) +
                                     " had finished, and others have restored it over another dataset, or with other terms, than this reader's: use "
                                     "theirs, or another job name")
      .With("job", job.name);
}

Status JobFinished(const Job& job, const std::string& outcome) {
  const std::string epochs = job.epochs == 1 ? "its epoch was" : "its " + std::to_string(job.epochs) + " epochs were";
  const std::string why = outcome == kOutcomeLeft ? " is over: all its consumers had left it, and it was put away after a day"
                                                  : " has finished: " + epochs + " delivered to the end";
  return Status(Code::kFinished, Named(job) + why + "; read again under another job name, or restore a position of it")
      .With("job", job.name)
      .With("outcome", outcome);
}

Status CheckLayout(const Job& job) {
  const Layout& layout = job.inputs.layout;
  if (job.mode == Mode::kStrict && layout.purity == Purity::kImpure) {
    return Status(Code::kInvalid, Named(job) +
                                      " asks for mode strict, and its dataset is impure (rows differ each time they are made), so there is no "
                                      "order to keep: seed its random operators, or use mode shared")
        .With("job", job.name);
  }
  const bool asks = job.even == Even::kDrop || job.even == Even::kPad;
  if (asks && job.mode == Mode::kShared && layout.batch == 0) {
    return Status(Code::kInvalid, Named(job) + " asks for even=" + std::string(NameOf(job.even)) +
                                      ", which counts batches, and its plan has none: batch in the plan, or use even=uneven")
        .With("job", job.name);
  }
  return {};
}

}  // namespace penstock::dispatcher
