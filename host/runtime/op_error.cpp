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

template <class E> bool is_a(const std::exception &error) {
  return dynamic_cast<const E *>(&error) != nullptr;
}

struct Raises {
  bool (*is)(const std::exception &);
  const char *type;
};

/// The class that torch raises in Python (torch/csrc/Exceptions.h), and ours.
constexpr Raises kRaised[] = {
    {&is_a<c10::IndexError>, "IndexError"},
    {&is_a<c10::ValueError>, "ValueError"},
    {&is_a<c10::TypeError>, "TypeError"},
    {&is_a<c10::NotImplementedError>, "NotImplementedError"},
    {&is_a<c10::BufferError>, "BufferError"},
    {&is_a<c10::SyntaxError>, "SyntaxError"},
    {&is_a<c10::LinAlgError>, "torch.linalg.LinAlgError"},
    {&is_a<c10::OutOfMemoryError>, "torch.OutOfMemoryError"},
    {&is_a<c10::AcceleratorError>, "torch.AcceleratorError"},
    {&is_a<c10::DistError>, "torch.distributed.DistError"},
    {&is_a<LeavesNumbers>, "OverflowError"}, // Python's int would be longer than 64 bits
};

const char *python_class(const std::exception &error) {
  for (const auto &[is, type] : kRaised)
    if (is(error))
      return type;
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
