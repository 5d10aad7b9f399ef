// From Status to penstock.Error and its children.
#pragma once

#include <utility>

#include "penstock/status.h"

namespace penstock::python {

// Raises the exception that penstock.errors has for the code; details become attributes. The GIL is held.
[[noreturn]] void Raise(const Status& status);

template <class T>
T Unwrap(Result<T> result) {
  if (!result.ok()) Raise(result.status());
  return std::move(result).value();
}

}  // namespace penstock::python
