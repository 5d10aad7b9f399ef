// What --parse says about a feature of a tf.Example.
#pragma once

#include <string>
#include <vector>

#include "penstock/dataset.h"
#include "penstock/status.h"

namespace penstock::cli {

// "id:int64" a value, "x:float32[3,4]" a shape, "words:string[]" any number.
Result<Feature> ParseFeature(const std::string& text);

// TFRecords of these files and patterns, parsed where there are features. Relative paths are made absolute: a worker has another directory.
Result<Plan> FilesPlan(const std::vector<std::string>& files, const std::vector<std::string>& features);

}  // namespace penstock::cli
