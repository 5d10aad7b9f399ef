// Which files this process may read: `penstock worker --allow-path`.
//
// One setting a process, made before any thread reads: every way to a file in this room asks it, so no format can forget to. What counts is where a
// name leads in the end, links and ".." resolved; an opened file is judged by its descriptor, so nothing can be changed between look and leap.
#pragma once

#include <string>
#include <vector>

#include "penstock/status.h"

namespace penstock {

// Only files below these directories, or these files. Empty: all. Invalid names one that is not there.
Status PermitOnly(const std::vector<std::string>& prefixes);

// A name or pattern, before anything looks whether it exists: else refusals would tell what does.
Status CheckPermittedName(const std::string& path);
// A file that is there.
Status CheckPermitted(const std::string& path);
Status CheckPermitted(int descriptor, const std::string& path);

}  // namespace penstock
