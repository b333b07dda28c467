#pragma once

#include "tracehost/function.h"

#include <span>
#include <string>
#include <vector>

namespace tracehost {
inline namespace TRACEHOST_ABI {
namespace detail {

/// What a tracehost::Function is a handle of: a function of an archive, of a Watcher, or of Python
/// (embed/). Safe from any thread.
class TRACEHOST_API Callable {
public:
  Callable() = default;
  virtual ~Callable();
  Callable(const Callable &) = delete;
  Callable &operator=(const Callable &) = delete;

  /// `inference`: in InferenceMode.
  virtual Value call(std::span<const Argument> arguments, bool inference) = 0;
  /// Function::warm_up() without signatures.
  virtual void warm_up(bool inference) = 0;
  /// Function::refresh().
  virtual void refresh() {}
  virtual const std::string &name() const = 0;
  virtual std::vector<std::string> signatures() const = 0;
  virtual std::vector<GraphSpec> graphs() const = 0;
  virtual std::vector<Parameter> parameters() const = 0;
  virtual Stats stats() const = 0;
};

} // namespace detail
} // namespace TRACEHOST_ABI
} // namespace tracehost
