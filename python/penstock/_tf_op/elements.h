// Rows of a run as tensors, without a copy where TensorFlow can take them as they lie.
#pragma once

#include <cstdint>
#include <vector>

#include "abi.h"
#include "tensorflow/core/framework/tensor.h"

namespace penstock_tf {

// Which part of which column a component of the element is.
struct Part {
  int64_t column = 0;
  int64_t ragged_rank = 0;  // of the component's tensor; 0: dense
  int64_t level = 0;        // 0: its values; n: the row splits of its n-th ragged dimension
  tensorflow::DataType dtype = tensorflow::DT_INVALID;
};

// Adds the component's tensor to `out`. Dimensions that were not known beforehand are equally long within one element, or it is an error.
absl::Status AddPart(const PenstockAbi& abi, const PenstockElement& element, const Part& part, std::vector<tensorflow::Tensor>* out);

}  // namespace penstock_tf
