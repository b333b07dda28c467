#include "archive/source_check.h"

#include "archive/error.h"
#include "archive/limits.h"
#include "archive/source_body.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace tracehost::archive {
namespace {

/// The class, line by line.
class SourceClass {
public:
  SourceClass(std::string_view text, const std::set<std::string> &methods,
              const std::vector<bool> &constants)
      : text_(text), methods_(methods), constants_(constants) {}

  CheckedSource checked() {
    if (!next() || line_ != "class Archive(Module):")
      here().wrong("is not the class of an archive");
    bool more = next();
    while (more) {
      SourceLine line = at_indent(2);
      if (!line.take("def ")) {
        attribute(line);
        more = next();
        continue;
      }
      const std::string name(line.need_name());
      if (name == "forward" && !methods_.contains(name)) { // calls another one: nobody needs it
        made_.text = text_.substr(0, begin_);
        return std::move(made_);
      }
      more = method(line, name);
    }
    made_.text = text_;
    return std::move(made_);
  }

private:
  /// The next line that is not empty; false: there is none.
  bool next() {
    do {
      if (at_ >= text_.size())
        return false;
      begin_ = at_;
      const std::size_t end = std::min(text_.find('\n', at_), text_.size());
      line_ = text_.substr(at_, end - at_);
      at_ = end + 1;
      ++number_;
    } while (line_.empty());
    return true;
  }
  SourceLine here() const { return {line_, number_}; }
  std::size_t indent() const { return std::min(line_.find_first_not_of(' '), line_.size()); }
  SourceLine at_indent(std::size_t count) const {
    if (indent() != count)
      here().wrong("is indented otherwise");
    return {line_.substr(count), number_};
  }

  void attribute(SourceLine line) {
    const std::string name(line.need_name());
    if (name == "__parameters__" || name == "__buffers__") {
      line.expect(" = [");
      while (line.string())
        line.expect(", ");
      line.expect("]");
      return line.end();
    }
    line.expect(" : ");
    const bool training = name == "training";
    line.expect(training ? "bool" : "Tensor");
    line.end();
    if (name.starts_with("__") || (!training && !made_.attributes.insert(name).second))
      line.wrong("has an attribute that none has");
  }

  /// Behind the name. Whether there is a line behind the method.
  bool method(SourceLine line, const std::string &name) {
    if (!methods_.contains(name) || !made_.methods.insert(name).second)
      line.wrong(
          fmt::format("has a method '{}', which the manifest does not name", name.substr(0, 80)));
    SourceBody body(made_.attributes, constants_);
    line.expect("(self: __torch__.tracehost.Archive");
    while (line.take(",")) {
      line.end();
      if (!next())
        line.wrong("does not end");
      line = at_indent(4);
      if (!body.argument(line.need_name()))
        line.wrong("has two arguments of one name");
      line.expect(": Tensor");
    }
    line.expect(") -> ");
    check_type(line);
    line.expect(":");
    line.end();
    return block(body);
  }

  bool block(SourceBody &body) {
    std::size_t deepest = 4; // where a line may begin: no deeper than the last one lets it
    bool opened = true, more = next();
    for (; more && indent() > 2; more = next()) {
      const std::size_t depth = indent();
      if (depth % 2 != 0 || depth > deepest || (opened && depth != deepest))
        here().wrong("is indented otherwise");
      if (depth > 4 + 2 * static_cast<std::size_t>(kDeepestBlocks))
        here().wrong("is in more blocks than any is");
      opened = body.statement({line_.substr(depth), number_});
      deepest = depth + (opened ? 2 : 0);
    }
    if (opened)
      here().wrong("ends where a block begins");
    return more;
  }

  const std::string_view text_;
  const std::set<std::string> &methods_;
  const std::vector<bool> &constants_;
  CheckedSource made_;
  std::string_view line_;
  std::size_t at_ = 0, begin_ = 0, number_ = 0;
};

} // namespace

CheckedSource check_source(std::string_view text, const std::set<std::string> &methods,
                           const std::vector<bool> &constants) {
  CheckedSource made = SourceClass(text, methods, constants).checked();
  for (const std::string &method : methods)
    if (!made.methods.contains(method))
      wrong_file(fmt::format("it has no method '{}'", method));
  return made;
}

} // namespace tracehost::archive
