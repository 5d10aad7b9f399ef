// A listing: a text file that names many files with their sizes and times, so that a job of a million files starts without looking at one of them.
#pragma once

#include <string_view>
#include <vector>

#include "penstock/manifest.h"
#include "penstock/status.h"

namespace penstock {

// The files of a listing, in its order: a line is path, size and time of change in seconds since 1970, with tabs between, as
//     find /data -name '*.tfrecord' -printf '%p\t%s\t%T@\n'
// prints them. Relative paths are seen from where the listing is. They are taken at their word: each is checked when it is opened. An error if
// the listing itself is not the one that is expected, or names no file.
Result<std::vector<InputFile>> ReadListing(const InputFile& expected);

// One line of it.
Result<InputFile> ParseListingLine(std::string_view line);

}  // namespace penstock
