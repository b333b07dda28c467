#pragma once

#include <ATen/core/ivalue.h>

#include <memory>
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
///     tracehost::check_kind(Scalar number, int kind) -> ()           throws CheckFailed
///     tracehost::check_number(Scalar number, Scalar expected) -> ()  throws CheckFailed
///
/// Others: numbers.h, modes.h, state_ops.cpp, array_ops.h, undo.h.

namespace tracehost {

struct Begun; ///< pieces.h

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

/// A number is another one than the graph was made for. All is as it was before the call (undo.h):
/// another graph may serve the call.
class CheckFailed : public std::runtime_error {
public:
  explicit CheckFailed(const std::string &what, std::shared_ptr<Begun> begun = nullptr)
      : std::runtime_error(what), begun_(std::move(begun)) {}
  /// The start of the run, from which another graph may continue; null: it must run from its start.
  /// May be called once.
  std::shared_ptr<Begun> take_begun() { return std::move(begun_); }

private:
  std::shared_ptr<Begun> begun_;
};

/// `a number ... has another value: 3, not 2, at net.py:12`; without a line where none is known.
std::string told(const CheckFailed &check, const std::string &place);

/// What the checks compare: of one type and equal to the bit; of one kind, a NumberKind.
bool is_number(const c10::IValue &number, const c10::IValue &expected);
bool is_of_kind(const c10::IValue &number, const c10::IValue &kind);

/// One of the two checks.
struct Check {
  bool of_kind = false; ///< check_kind, not check_number
  c10::IValue expected;
  std::string place; ///< `net.py:12`

  bool holds(const c10::IValue &number) const {
    return of_kind ? is_of_kind(number, expected) : is_number(number, expected);
  }
  /// How `number` differs from what is expected.
  std::string told(const c10::IValue &number) const;
};

/// What an op of a check throws, for Program alone, which throws CheckFailed in its place. No
/// std::exception: the interpreter would catch that, and print all of its stack (15 us).
struct FailedCheck {
  std::string what;
  std::string place; ///< `net.py:12`
};

/// Whether the op of this qualified name is one of the two checks.
bool is_check(std::string_view op);

/// Whether the op of this qualified name is one of torch's functional collectives
/// (torch.distributed._functional_collectives): all ranks have to run it, each as often.
bool communicates(std::string_view op);

} // namespace tracehost
