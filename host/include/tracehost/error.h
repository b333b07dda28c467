#pragma once

#include "tracehost/export.h"

#include <cstdint>
#include <stdexcept>
#include <string>

/// What the library throws. Beside it only std::bad_alloc comes out of a call. No exception holds a
/// Python object.

namespace tracehost {
inline namespace TRACEHOST_ABI {

/// Which kind of error it is, for a `switch` or a status to a client: one for each class, and one
/// for each cause of an Interrupted.
enum class ErrorCode : std::uint8_t {
  other,       ///< Error itself: wrong use, a missing file or module
  signature,   ///< SignatureError
  archive,     ///< ArchiveError
  interrupted, ///< Interrupted: interrupt()
  stopped,     ///< Interrupted: with_stop()
  deadline,    ///< Interrupted: with_deadline()
  overloaded,  ///< Overloaded
  device,      ///< DeviceError
  trace,       ///< TraceError
  python,      ///< PythonError
  op           ///< OpError
};

/// Its name as above: `deadline`.
TRACEHOST_API const char *text(ErrorCode code) noexcept;

class TRACEHOST_API Error : public std::runtime_error {
public:
  explicit Error(const std::string &message, ErrorCode code = ErrorCode::other)
      : std::runtime_error(message), code_(code) {}
  ~Error() override;
  ErrorCode code() const noexcept { return code_; }

private:
  ErrorCode code_;
};

/// A call that no graph serves, or whose arguments do not fit the parameters.
///
///     try {
///       predict(at::zeros({4, 80}));
///     } catch (const tracehost::SignatureError &e) {
///       // e.parameter() "x"   e.expected() "64"   e.got() "80"
///       // e.nearest() "(x: float32[None, 64])"    e.what() all of it, in words
///     }
class TRACEHOST_API SignatureError : public Error {
public:
  SignatureError(const std::string &message, std::string parameter, std::string expected,
                 std::string got, std::string nearest);
  ~SignatureError() override;

  const std::string &parameter() const { return parameter_; } ///< `x`, `batch['image'][0]`
  const std::string &expected() const { return expected_; }
  const std::string &got() const { return got_; }
  const std::string &nearest() const { return nearest_; } ///< the signature closest to the call's

private:
  std::string parameter_, expected_, got_, nearest_;
};

/// A file that can't be loaded.
class TRACEHOST_API ArchiveError : public Error {
public:
  explicit ArchiveError(const std::string &message) : Error(message, ErrorCode::archive) {}
  ~ArchiveError() override;
};

/// A call that was ended between two ops, or before it began: interrupt(), Function::with_stop(),
/// Function::with_deadline(). code() says which.
class TRACEHOST_API Interrupted : public Error {
public:
  /// `why`: interrupted, stopped or deadline. `function`: empty where it is not known yet.
  Interrupted(ErrorCode why, bool may_have_written, const std::string &function = {});
  ~Interrupted() override;
  /// Whether the ops that ran may have written to a tensor that was there before, or drawn random
  /// numbers. False: the call can be made again, as if it had not been.
  bool may_have_written() const noexcept { return may_have_written_; }

private:
  bool may_have_written_;
};

/// A request that a Batcher does not take: as many wait as may.
class TRACEHOST_API Overloaded : public Error {
public:
  explicit Overloaded(const std::string &message) : Error(message, ErrorCode::overloaded) {}
  ~Overloaded() override;
};

/// A device that is not there, or that an archive can't be loaded to.
class TRACEHOST_API DeviceError : public Error {
public:
  explicit DeviceError(const std::string &message) : Error(message, ErrorCode::device) {}
  ~DeviceError() override;
};

/// Python code could not be traced; what() has the traceback. Never of an archive.
class TRACEHOST_API TraceError : public Error {
public:
  explicit TraceError(const std::string &message) : Error(message, ErrorCode::trace) {}
  ~TraceError() override;
};

/// What Python code raised: a body, an import, or a `raise` or `assert` that a graph has, with
/// Python or without. what() is the message, and the traceback behind it if there is one.
///
///     try {
///       root(at::full({}, -1.0));
///     } catch (const tracehost::PythonError &e) {
///       // e.type() "ValueError"   e.message() "no real root"
///     }
class TRACEHOST_API PythonError : public Error {
public:
  PythonError(std::string type, std::string message, std::string traceback);
  ~PythonError() override;
  const std::string &type() const { return type_; } ///< `ValueError`, `decoder.Overflow`
  const std::string &message() const { return message_; }
  const std::string &traceback() const { return traceback_; } ///< empty where a graph raised

protected:
  PythonError(std::string type, std::string message, std::string traceback, ErrorCode code);

private:
  std::string type_, message_, traceback_;
};

/// What an op of a graph throws. type() is the class that Python raises for it, message() its text.
/// In a function of Python's, a call that no graph serves raises the same as a PythonError.
///
///     try {
///       predict(tokens);
///     } catch (const tracehost::OpError &e) {
///       // e.type() "IndexError"   e.message() "index out of range in self"
///       // e.place() "net.py:12"   e.function() "predict"
///     }
class TRACEHOST_API OpError : public PythonError {
public:
  OpError(std::string type, std::string message, std::string place, std::string function);
  ~OpError() override;
  /// The line; empty unless the archive was saved with `source_paths=True`.
  const std::string &place() const { return place_; }
  const std::string &function() const { return function_; }

private:
  std::string place_, function_;
};

} // namespace TRACEHOST_ABI
} // namespace tracehost
