#pragma once

#include "tracehost/export.h"

#include <stdexcept>
#include <string>

/// What the library throws. What an op of a graph throws passes through as it is: a c10::Error, a
/// std::exception. A `raise` of a graph is a PythonError. No exception holds a Python object.

namespace tracehost {
inline namespace TRACEHOST_ABI {

class TRACEHOST_API Error : public std::runtime_error {
public:
  using std::runtime_error::runtime_error;
  ~Error() override;
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
  using Error::Error;
  ~ArchiveError() override;
};

/// A call that was interrupted: tracehost::interrupt().
class TRACEHOST_API Interrupted : public Error {
public:
  using Error::Error;
  ~Interrupted() override;
};

/// A request that a Batcher does not take: as many wait as may.
class TRACEHOST_API Overloaded : public Error {
public:
  using Error::Error;
  ~Overloaded() override;
};

/// A device that is not there, or that an archive can't be loaded to.
class TRACEHOST_API DeviceError : public Error {
public:
  using Error::Error;
  ~DeviceError() override;
};

/// Python code could not be traced; what() has the traceback. Never of an archive.
class TRACEHOST_API TraceError : public Error {
public:
  using Error::Error;
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

private:
  std::string type_, message_, traceback_;
};

} // namespace TRACEHOST_ABI
} // namespace tracehost
