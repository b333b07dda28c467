#include "runtime/bind.h"

#include <fmt/ranges.h>

#include <utility>

namespace tracehost::runtime {

Binder::Binder(std::string function, std::shared_ptr<const Parameters> parameters,
               std::vector<Default> defaults)
    : function_(std::move(function)), parameters_(std::move(parameters)),
      defaults_(std::move(defaults)) {
  defaults_.resize(size());
  for (std::size_t i = 0; i < size(); ++i) {
    positional_ += kind(i) == Parameters::Kind::positional;
    var_positional_ |= kind(i) == Parameters::Kind::var_positional;
    var_keyword_ |= kind(i) == Parameters::Kind::var_keyword;
  }
}

void Binder::bind(std::span<const Argument> arguments, Bound &bound) const {
  bound.values.assign(size(), nullptr);
  bound.extra.clear();
  bound.keywords.clear();
  std::size_t place = 0; // positional parameters come first
  for (const Argument &argument : arguments) {
    if (!argument.name.empty())
      by_name(argument, bound);
    else if (place < positional_ && !bound.values[place])
      bound.values[place++] = &argument.value;
    else if (place == positional_ && var_positional_)
      bound.extra.push_back(&argument.value);
    else if (place < positional_)
      fail(fmt::format("an argument by place follows '{}' by name", parameters_->names[place]),
           parameters_->names[place], "one value", "two");
    else
      fail(fmt::format("it takes {} argument{} by place, more were given", positional_,
                       positional_ == 1 ? "" : "s"),
           {}, fmt::format("{}", positional_), fmt::format("{}", arguments.size()));
  }
  for (std::size_t i = 0; i < size(); ++i)
    if (!bound.values[i] && !defaults_[i] &&
        (kind(i) == Parameters::Kind::positional || kind(i) == Parameters::Kind::keyword))
      fail(fmt::format("argument '{}' is missing", parameters_->names[i]), parameters_->names[i],
           "a value", "nothing");
}

void Binder::by_name(const Argument &argument, Bound &bound) const {
  for (std::size_t i = 0; i < size(); ++i) {
    if (parameters_->names[i] != argument.name ||
        (kind(i) != Parameters::Kind::positional && kind(i) != Parameters::Kind::keyword))
      continue;
    if (bound.values[i])
      fail(fmt::format("argument '{}' was given twice", argument.name), argument.name, "one value",
           "two");
    bound.values[i] = &argument.value;
    return;
  }
  if (!var_keyword_)
    fail(fmt::format("it has no parameter '{}'", argument.name), argument.name, "no such argument",
         text(argument.value));
  bound.keywords.push_back(&argument);
}

void Binder::fail(const std::string &what, std::string parameter, std::string expected,
                  std::string got) const {
  throw SignatureError(fmt::format("{}: {}. Its parameters are ({}).", function_, what,
                                   fmt::join(parameters_->names, ", ")),
                       std::move(parameter), std::move(expected), std::move(got), {});
}

} // namespace tracehost::runtime
