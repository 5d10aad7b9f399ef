// Options that no reader can read with, whichever side would see it first.
#pragma once

#include <string>

#include "penstock/client.h"
#include "penstock/layout.h"
#include "penstock/status.h"

namespace penstock {

// Invalid for a mode that is not there, an index that is none of the declared consumers', and options that contradict each other.
Status CheckReadOptions(const ReadOptions& options);
// Invalid for what ranks that read inline cannot do, as none of them knows of the others.
Status CheckInlineOptions(const ReadOptions& options, const Layout& layout);
// Why a job in mode replicated has no state.
Status HasNoPosition(const std::string& job_name);

}  // namespace penstock
