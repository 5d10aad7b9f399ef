#include "base/caught.h"

#include <exception>
#include <new>
#include <stdexcept>

namespace penstock {
namespace {

Status OutOfMemory() {
  return Status(Code::kTooLarge, "more memory is wanted than there is; make rows or batches smaller, or give the process more memory");
}

}  // namespace

Status CaughtStatus() {
  try {
    throw;
  } catch (const std::bad_alloc&) {
    return OutOfMemory();
  } catch (const std::length_error&) {  // how containers refuse what no memory could hold
    return OutOfMemory();
  } catch (const std::exception& error) {
    return Status(Code::kInternal, std::string("unexpected: ") + error.what());
  } catch (...) {
    return Status(Code::kInternal, "unexpected: something was thrown that is no exception");
  }
}

}  // namespace penstock
