#pragma once

#include "archive/archive.h"
#include "tracehost/function.h"

#include <c10/util/SmallVector.h>

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace tracehost::runtime {

/// A call's arguments in the order of the parameters; they point into the call's own.
struct Bound {
  c10::SmallVector<const Value *, 8> values; ///< by parameter; null: its default, or a var one's
  c10::SmallVector<const Value *, 4> extra;  ///< of *args
  c10::SmallVector<const Argument *, 4> keywords; ///< of **kwargs
};

/// Binds arguments to a function's parameters, as Python does.
class Binder {
public:
  using Default = std::optional<archive::Value>;
  Binder(std::string function, std::shared_ptr<const Parameters> parameters,
         std::vector<Default> defaults);

  /// Hot: no allocation for up to eight parameters. Throws SignatureError.
  void bind(std::span<const Argument> arguments, Bound &bound) const;

  std::size_t size() const { return parameters_->names.size(); }
  Parameters::Kind kind(std::size_t parameter) const {
    return parameters_->kinds.empty() ? Parameters::Kind::positional
                                      : parameters_->kinds[parameter];
  }
  const Default &default_of(std::size_t parameter) const { return defaults_[parameter]; }
  const std::shared_ptr<const Parameters> &parameters() const { return parameters_; }

private:
  void by_name(const Argument &argument, Bound &bound) const;
  [[noreturn]] void fail(const std::string &what, std::string parameter, std::string expected,
                         std::string got) const;

  std::string function_;
  std::shared_ptr<const Parameters> parameters_;
  std::vector<Default> defaults_;
  bool var_positional_ = false, var_keyword_ = false;
  std::size_t positional_ = 0; ///< how many can be given by place
};

} // namespace tracehost::runtime
