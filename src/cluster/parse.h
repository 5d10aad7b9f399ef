// Values of variables, checked. Every error names the variable, its value and what was expected.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "cluster/identity.h"
#include "penstock/status.h"

namespace penstock::cluster {

// The variable's value; nullptr where it is not set or empty.
const std::string* Find(const Environment& environment, std::string_view name);

// "NAME is 'value'; expected …". Long values are cut.
Status Malformed(std::string_view name, std::string_view value, std::string_view expected);
// "NAME is not set, though why; remedy"
Status Missing(std::string_view name, std::string_view why, std::string_view remedy);

// A variable's number from 0 to 2^32-1 and nothing around it; nullopt where it is not set.
Result<std::optional<uint32_t>> FindNumber(const Environment& environment, std::string_view name);
std::optional<uint32_t> ToNumber(std::string_view digits);

// `a` and `b` are the same name: compared without case, '-' and '_', which is all that the folded name leaves out.
bool SameName(std::string_view a, std::string_view b);
std::string Folded(std::string_view name);

// A host name (letters, digits, '-', '_', '.') or an IP address of sane length.
bool IsHost(std::string_view text);

// "host", "host:port", "[v6]", "[v6]:port". Without a port it has `default_port`; where that is 0, as for what a worker tells others, "v6" without
// brackets is one of these, too: elsewhere its end might be meant for a port. `name` is for the error.
Result<Address> ParseAddress(std::string_view name, std::string_view value, uint16_t default_port);
// As PENSTOCK_SERVICE: penstock://host:port, grpc://host:port, host:port, unix:/path, local[:N], inline, off.
Result<Service> ParseService(std::string_view name, std::string_view value);

// A role in penstock's words: trainer, dispatcher, worker (a reader), evaluator, ps.
Result<Role> ParseRole(std::string_view name, std::string_view value);
// A replica type of a training platform: there, a worker trains, and datasetworker is the reader.
Result<Role> ParseReplicaType(std::string_view name, std::string_view value);

// A job's name or id: 1 to 200 characters without control characters.
Result<std::string> ParseJob(std::string_view name, std::string_view value);

}  // namespace penstock::cluster
