#include "code.h"

#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>

#include <cstdint>
#include <string>
#include <utility>

#include "errors.h"
#include "gil.h"
#include "spec.h"

namespace nb = nanobind;

namespace penstock::python {
namespace {

// A Ctrl-C, which is the loop's and no error of the code that it came upon: errors.py raises it there, once for each number.
Status Interrupted() {
  static uint64_t number = 0;  // under the GIL
  return Status(
             Code::kExecutor,
             "the loop was interrupted while it made rows, and its reader has ended with that; distribute the dataset again, and load_state_dict() "
             "to go on where it was")
      .With("interrupt", std::to_string(++number));
}

// What Python raised, as a status. The GIL is held.
Status ToStatus(nb::python_error& error) {
  if (error.matches(PyExc_KeyboardInterrupt)) return Interrupted();
  nb::object value = nb::borrow(error.value());
  Status status(Code::kExecutor, nb::cast<std::string>(nb::str(value)));
  if (!nb::hasattr(value, "details") || !nb::hasattr(value, "code")) return status;
  if (nb::cast<std::string>(nb::str(value.attr("code"))) == "Mismatch") status = Status(Code::kMismatch, status.message());
  for (auto [name, text] : nb::cast<nb::dict>(value.attr("details"))) {
    status = std::move(status).With(nb::cast<std::string>(nb::str(name)), nb::cast<std::string>(nb::str(text)));
  }
  status = std::move(status).With("worker", "inline");
  return status;
}

template <class Work>
auto Guarded(const Work& work) -> decltype(work()) {
  const GilTaken taken;
  try {
    return work();
  } catch (nb::python_error& error) {
    return ToStatus(error);
  } catch (const std::exception& error) {
    return Status(Code::kExecutor, error.what());
  }
}

nb::object ViewOf(const Extent& extent) {
  return nb::steal(PyMemoryView_FromMemory(reinterpret_cast<char*>(extent.bytes().data()), static_cast<Py_ssize_t>(extent.size()), PyBUF_WRITE));
}

nb::object StructureToNodes(const Structure& structure) {
  if (structure.kind == Structure::Kind::kLeaf) return nb::none();
  nb::dict node;
  nb::list children;
  for (const Structure& child : structure.children) children.append(StructureToNodes(child));
  node["children"] = children;
  if (structure.kind == Structure::Kind::kDict) {
    nb::list names;
    for (const std::string& name : structure.names) names.append(name);
    node["names"] = names;
  }
  return node;
}

nb::dict SpecToNodes(const Spec& spec) {
  nb::list columns;
  for (const ColumnSpec& column : spec.columns) {
    nb::list shape;
    for (const int64_t dimension : column.shape) shape.append(dimension);
    const std::string_view dtype = Name(column.dtype);
    columns.append(nb::make_tuple(column.name, nb::str(dtype.data(), dtype.size()), shape));
  }
  nb::dict out;
  out["columns"] = columns;
  out["structure"] = StructureToNodes(spec.structure);
  return out;
}

CodeRows ToRows(const nb::object& answer) {
  CodeRows rows;
  rows.rows = nb::cast<uint64_t>(answer["rows"]);
  rows.first = {nb::cast<uint64_t>(answer["first_seq"]), nb::cast<uint32_t>(answer["first_child"])};
  rows.end = {nb::cast<uint64_t>(answer["end_seq"]), nb::cast<uint32_t>(answer["end_child"])};
  rows.has_cursors = nb::cast<bool>(answer["has_cursors"]);
  rows.hungry = nb::cast<bool>(answer["hungry"]);
  rows.ended = nb::cast<bool>(answer["ended"]);
  rows.again = nb::cast<bool>(answer["again"]);
  rows.held_bytes = nb::cast<uint64_t>(answer["held_bytes"]);
  for (nb::handle length : answer["lengths"]) rows.lengths.push_back(nb::cast<uint64_t>(length));
  return rows;
}

// Where Python is ending there is no GIL to be had any more, and nobody to give the object back to.
bool LeftToTheEnd(nb::object& object) {
  if (nb::is_alive()) return false;
  object.release();
  return true;
}

class Lane final : public CodeLane {
 public:
  Lane(nb::object runner, uint64_t number) : runner_(std::move(runner)), number_(number) {}
  ~Lane() override {
    if (LeftToTheEnd(runner_)) return;
    const GilTaken taken;
    const nb::error_scope raised;  // a reader may go while an exception is on its way
    try {
      CallMethod(runner_, "close", number_);
    } catch (nb::python_error& error) {
      error.discard_as_unraisable("closing a lane");
    }
    runner_.reset();
  }

  Result<CodeRows> Fill(const CodeWant& want, const Extent* input, bool input_over, const CodeRoom* /*room*/) override {
    return Guarded([&]() -> Result<CodeRows> {
      nb::dict wanted;
      wanted["target"] = want.target;
      wanted["cap"] = want.cap;
      wanted["group"] = want.group_rows;
      wanted["phase"] = want.phase;
      wanted["by_group"] = want.by_group;
      wanted["to"] = want.to;
      nb::object block = input == nullptr ? nb::none() : ViewOf(*input);
      return ToRows(CallMethod(runner_, "fill", number_, wanted, block, input_over));
    });
  }

  Result<CodeWritten> Write(std::span<const BufferPlace> places, const Extent& block) override {
    return Guarded([&]() -> Result<CodeWritten> {
      nb::list pairs;
      for (const BufferPlace& place : places) pairs.append(nb::make_tuple(place.offset, place.length));
      CodeWritten written;
      for (nb::handle crc : CallMethod(runner_, "write", number_, pairs, ViewOf(block))) written.crcs.push_back(nb::cast<uint32_t>(crc));
      return written;
    });
  }

 private:
  nb::object runner_;
  uint64_t number_;
};

class InlineHost final : public CodeHost {
 public:
  explicit InlineHost(nb::object runner) : runner_(std::move(runner)) {}
  ~InlineHost() override {
    if (LeftToTheEnd(runner_)) return;
    const GilTaken taken;
    const nb::error_scope raised;
    runner_.reset();
  }

  Result<std::unique_ptr<CodeLane>> Open(const CodeOpen& open) override {
    return Guarded([&]() -> Result<std::unique_ptr<CodeLane>> {
      nb::dict opened;
      nb::list nodes;
      for (const uint32_t node : open.nodes) nodes.append(node);
      opened["nodes"] = nodes;
      opened["seed"] = open.seed;
      opened["epoch"] = Raw(open.key.epoch);
      opened["replica"] = Raw(open.key.replica);
      opened["ordinal"] = Raw(open.key.lane);
      opened["part"] = open.lane;
      opened["parts"] = open.lanes;
      opened["from_seq"] = open.from.seq;
      opened["from_child"] = open.from.child;
      if (open.input != nullptr) opened["input"] = SpecToNodes(*open.input);
      const uint64_t number = ++last_;
      CallMethod(runner_, "open", number, opened);
      return std::unique_ptr<CodeLane>(std::make_unique<Lane>(runner_, number));
    });
  }
  ExtentAllocator& scratch() override { return scratch_; }

 private:
  nb::object runner_;
  HeapExtents scratch_;
  uint64_t last_ = 0;  // under the GIL
};

}  // namespace

std::shared_ptr<CodeHost> MakeInlineHost(const Plan& plan) {
  const std::string bytes = SerializePlan(plan);
  return std::make_shared<InlineHost>(nb::module_::import_("penstock._executor.runner").attr("Runner")(nb::bytes(bytes.data(), bytes.size())));
}

}  // namespace penstock::python
