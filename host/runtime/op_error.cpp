#include "runtime/op_error.h"

#include "program/numbers.h"
#include "program/program.h"
#include "tracehost/error.h"

#include <c10/util/Exception.h>

#include <exception>
#include <new>
#include <utility>

namespace tracehost::runtime {
namespace {

/// The class that torch raises in Python (torch/csrc/Exceptions.h).
const char *python_class(const std::exception &error) {
  if (dynamic_cast<const c10::IndexError *>(&error))
    return "IndexError";
  if (dynamic_cast<const c10::ValueError *>(&error))
    return "ValueError";
  if (dynamic_cast<const c10::TypeError *>(&error))
    return "TypeError";
  if (dynamic_cast<const c10::NotImplementedError *>(&error))
    return "NotImplementedError";
  if (dynamic_cast<const c10::BufferError *>(&error))
    return "BufferError";
  if (dynamic_cast<const c10::SyntaxError *>(&error))
    return "SyntaxError";
  if (dynamic_cast<const c10::LinAlgError *>(&error))
    return "torch.linalg.LinAlgError";
  if (dynamic_cast<const c10::OutOfMemoryError *>(&error))
    return "torch.OutOfMemoryError";
  if (dynamic_cast<const c10::AcceleratorError *>(&error))
    return "torch.AcceleratorError";
  if (dynamic_cast<const c10::DistError *>(&error))
    return "torch.distributed.DistError";
  if (dynamic_cast<const LeavesNumbers *>(&error)) // Python's int would be longer than 64 bits
    return "OverflowError";
  return "RuntimeError";
}

std::string message_of(const std::exception &error) {
  if (const auto *torchs = dynamic_cast<const c10::Error *>(&error))
    return torchs->what_without_backtrace();
  return error.what();
}

} // namespace

void throw_op_error(const std::string &function) {
  std::string place = Program::take_failed_at();
  try {
    throw;
  } catch (const Error &) {
    throw;
  } catch (const std::bad_alloc &) {
    throw;
  } catch (const std::exception &error) {
    throw OpError(python_class(error), message_of(error), std::move(place), function);
  }
}

} // namespace tracehost::runtime
