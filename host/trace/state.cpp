#include "trace/state.h"

#include "program/nodes.h"
#include "trace/ancestry.h"
#include "trace/trace.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <fmt/format.h>

#include <algorithm>

namespace tracehost::trace {

namespace tracer = torch::jit::tracer;

namespace {

template <class Function> auto op(const char *name) {
  return c10::Dispatcher::singleton().findSchemaOrThrow(name, "").typed<Function>();
}

} // namespace

at::Tensor data_of(const at::Tensor &t) {
  static const auto data = op<at::Tensor(const at::Tensor &)>("tracehost::data");
  return data.call(t);
}

void set_data(const at::Tensor &t, const at::Tensor &data) {
  if (current)
    current->inputs.sets_data = true;
  static const auto set = op<void(const at::Tensor &, const at::Tensor &)>("tracehost::set_data");
  set.call(t, data);
}

void set_requires_grad(const at::Tensor &t, bool on) {
  static const auto set = op<void(const at::Tensor &, bool)>("tracehost::requires_grad_");
  current->inputs.is_leaf_of_body(t);
  set.call(t, on);
}

void check_memory_is_own(const at::Tensor &t, const std::string &how) {
  if (!made_its_memory(t))
    reject(
        Rejection::value_read,
        fmt::format("the body reads Tensor.{} at {}, of memory that it did not make: another "
                    "call may pass the same sizes and strides from elsewhere in memory. Move the "
                    "read out of the function, and pass it as an argument.",
                    how, text(current->here())));
}

void check_memory_read(const at::Tensor &t, const std::string &how) {
  check_memory_is_own(t, how);
  note_strides_read(t); // what the body made lies as its inputs do
}

bool made_its_memory(const at::Tensor &t) {
  current->inputs.know(t); // as a capture, if it is one
  return current->inputs.are_apart(t);
}

} // namespace tracehost::trace
