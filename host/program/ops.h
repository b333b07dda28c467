#pragma once

#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>

/// Ops of tracehost in graphs. They are registered with libtorch under `tracehost::` when the
/// library is loaded.
///
///     tracehost::keep(Tensor t) -> ()                    does nothing: `t` is not removed
///     tracehost::raise_error(str type, str message, str details) -> ()   throws a Raised
///     tracehost::number(bool truth) -> Scalar            the bool, for an op that takes a number
///     tracehost::py_tensor(Scalar number) -> Tensor      0-dim, promotes types as a number does
///
/// Others: checks.h, numbers.h, modes.h, state_ops.cpp, array_ops.h, undo.h.

namespace tracehost {

/// A Python exception that the graph raises, as `raise` or `assert` in a staged branch do.
class Raised : public std::runtime_error {
public:
  Raised(std::string type, const std::string &message, std::string details = {})
      : std::runtime_error(message), type_(std::move(type)), details_(std::move(details)) {}
  /// `builtins:ValueError`, `my.module:Failure`
  const std::string &type() const { return type_; }
  /// What the exception has besides its text, as the binding wrote it; empty: nothing.
  const std::string &details() const { return details_; }

private:
  std::string type_, details_;
};

/// Whether the op of this qualified name is one of torch's functional collectives
/// (torch.distributed._functional_collectives): all ranks have to run it, each as often.
bool communicates(std::string_view op);

} // namespace tracehost
