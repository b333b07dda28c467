#include "archive/source_check.h"

#include "archive/file.h"
#include "archive/limits.h"
#include "archive/source_line.h"

#include <ATen/core/interned_strings.h>
#include <torch/csrc/jit/runtime/operator.h>

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>
#include <unordered_map>
#include <unordered_set>
#include <vector>

namespace tracehost::archive {
namespace {

/// What is known of a value before it is compiled.
struct Fact {
  bool constant = false; ///< may be; then the frontend may compute what is made of it
  bool literal = false;  ///< a string as it stands in the source
  bool message = false;  ///< text that format() makes
  bool tuple = false;
  int lists = 0;                       ///< in each other; at most
  std::optional<std::int64_t> integer; ///< it is that one

  void join(const Fact &other) {
    constant |= other.constant;
    literal |= other.literal;
    message |= other.message;
    tuple |= other.tuple;
    lists = std::max(lists, other.lists);
    integer.reset();
  }
  bool text() const { return literal || message; }
};

/// Folding them takes little time and memory, and gives no text.
const std::unordered_set<std::string_view> kFolded = {
    "add",    "sub",     "mul",     "neg",    "eq",        "ne",     "lt",
    "le",     "gt",      "ge",      "Int",    "Float",     "Bool",   "__and__",
    "__or__", "__xor__", "__not__", "__is__", "__isnot__", "device", "Generator",
    "min",    "max",     "len",     "dim",    "size",      "item",   "Scalar",
    "abs",    "div",     "sqrt",    "floor",  "ceil",      "round",  "set_grad_enabled"};
/// They trap where INT64_MIN is divided by -1.
const std::unordered_set<std::string_view> kDividing = {"floordiv", "remainder", "fmod", "mod"};
const std::unordered_set<std::string_view> kPrim = {
    "NumToTensor", "RaiseException", "is_meta", "data", "min", "max", "abs"};
/// Have a meaning, which no variable changes.
const std::unordered_set<std::string_view> kTaken = {"torch",
                                                     "ops",
                                                     "self",
                                                     "CONSTANTS",
                                                     "annotate",
                                                     "bool",
                                                     "int",
                                                     "float",
                                                     "range",
                                                     "inf",
                                                     "nan",
                                                     "infj",
                                                     "nanj",
                                                     "True",
                                                     "False",
                                                     "None",
                                                     "if",
                                                     "else",
                                                     "while",
                                                     "for",
                                                     "in",
                                                     "return",
                                                     "pass",
                                                     "def",
                                                     "class",
                                                     "and",
                                                     "or",
                                                     "not",
                                                     "is",
                                                     "with",
                                                     "as",
                                                     "assert",
                                                     "raise",
                                                     "import",
                                                     "from",
                                                     "global",
                                                     "del",
                                                     "lambda",
                                                     "elif",
                                                     "break",
                                                     "continue",
                                                     "fork",
                                                     "uninitialized",
                                                     "unchecked_cast"};

/// Whether no operator of that name gives what the frontend would compute: only tensors and lists.
bool gives_no_constant(const std::string &symbol) {
  const auto &all = torch::jit::getAllOperatorsFor(c10::Symbol::fromQualString(symbol));
  return !all.empty() && std::all_of(all.begin(), all.end(), [](const auto &op) {
    const auto &returns = op->schema().returns();
    return !returns.empty() && std::all_of(returns.begin(), returns.end(), [](const auto &result) {
      const auto kind = result.type()->kind();
      return kind == c10::TypeKind::TensorType || kind == c10::TypeKind::ListType;
    });
  });
}

/// The body of one method.
class Body {
public:
  Body(std::unordered_map<std::string, Fact> names, const std::vector<bool> &constants)
      : names_(std::move(names)), constants_(constants) {}
  /// Whether it opens a block.
  bool statement(SourceLine line);

private:
  Fact expression(SourceLine &line, int depth);
  Fact call(SourceLine &line, const std::string &symbol, std::string_view name, int depth);
  Fact cast(SourceLine &line, int depth);
  Fact list(SourceLine &line, int depth);
  Fact tuple(SourceLine &line, int depth);
  Fact postfix(SourceLine &line, Fact made, int depth);
  Fact known(const SourceLine &line, std::string_view name) const;
  void assign(const SourceLine &line, std::string_view name, const Fact &value);
  void assignment(SourceLine &line, std::string_view first);
  void check_call(const SourceLine &line, const std::string &symbol, std::string_view name,
                  const std::vector<Fact> &arguments) const;

  std::unordered_map<std::string, Fact> names_;
  const std::vector<bool> &constants_;
};

void type(SourceLine &line, int depth = 0) {
  constexpr std::array<std::string_view, 12> plain = {"Tensor", "int",     "float",     "bool",
                                                      "str",    "complex", "number",    "Device",
                                                      "Scalar", "Layout",  "Generator", "NoneType"};
  if (depth > kDeepestType)
    line.wrong("has a type with more in each other than any has");
  const std::string_view name = line.need_name();
  if (std::find(plain.begin(), plain.end(), name) != plain.end())
    return;
  if (name != "Optional" && name != "List" && name != "Tuple")
    line.wrong("has a type that none has");
  line.expect("[");
  if (line.take("()"))
    return line.expect("]");
  type(line, depth + 1);
  while (name == "Tuple" && line.take(", "))
    type(line, depth + 1);
  line.expect("]");
}

Fact Body::known(const SourceLine &line, std::string_view name) const {
  const auto found = names_.find(std::string(name));
  if (found == names_.end())
    line.wrong(fmt::format("reads '{}', which is no value", name.substr(0, 80)));
  return found->second;
}

void Body::assign(const SourceLine &line, std::string_view name, const Fact &value) {
  if (kTaken.contains(name) || name.starts_with("__"))
    line.wrong(fmt::format("assigns to '{}'", name.substr(0, 80)));
  const auto [at, is_new] = names_.emplace(name, value);
  if (!is_new)
    at->second.join(value);
}

Fact Body::list(SourceLine &line, int depth) {
  Fact made;
  if (!line.take("]"))
    do {
      const Fact item = expression(line, depth + 1);
      if (item.tuple || item.text())
        line.wrong("has a list of what no list has");
      made.lists = std::max(made.lists, item.lists);
    } while (line.take(", ") && !line.at("]"));
  else
    return ++made.lists, made;
  line.expect("]");
  if (++made.lists > kDeepestLists)
    line.wrong("has lists in each other to a depth that none has");
  return made;
}

Fact Body::tuple(SourceLine &line, int depth) {
  Fact first = expression(line, depth + 1);
  if (line.take(")"))
    return first;
  Fact made;
  made.tuple = true;
  made.lists = first.lists;
  bool nested = first.tuple || first.text();
  while (line.take(", ") && !line.at(")")) {
    const Fact item = expression(line, depth + 1);
    nested |= item.tuple || item.text();
    made.lists = std::max(made.lists, item.lists);
  }
  if (nested)
    line.wrong("has a tuple of what no tuple has");
  line.take(",");
  line.expect(")");
  return made;
}

/// `bool(x)`, `annotate(List[int], [])`
Fact Body::cast(SourceLine &line, int depth) {
  Fact made = expression(line, depth + 1);
  if (made.text() || made.tuple)
    line.wrong("has text or a tuple as a number");
  made.integer.reset();
  line.expect(")");
  return made;
}

void Body::check_call(const SourceLine &line, const std::string &symbol, std::string_view name,
                      const std::vector<Fact> &arguments) const {
  const bool raises = symbol == "prim::RaiseException", formats = symbol == "aten::format";
  const bool names = symbol == "aten::device" || symbol == "aten::Generator";
  const bool folds = kFolded.contains(name) || kDividing.contains(name);
  bool constant = true;
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const Fact &argument = arguments[i];
    constant &= argument.constant || argument.text();
    const bool message = raises || (formats && i == 0);
    if (argument.tuple || (argument.message && !raises) ||
        (argument.literal && !message && !names && (formats || folds)))
      line.wrong("has text or a tuple as what none is");
  }
  if (!constant || raises || formats || names || symbol.starts_with("tracehost::"))
    return;
  if (kDividing.contains(name)) {
    const auto by = arguments.size() == 2 ? arguments[1].integer : std::nullopt;
    if (!by || *by == 0 || *by == -1)
      line.wrong("divides constants");
    return;
  }
  if (!kFolded.contains(name) && !gives_no_constant(symbol))
    line.wrong(fmt::format("computes '{}' of constants", name.substr(0, 80)));
}

/// Behind `torch.add(`.
Fact Body::call(SourceLine &line, const std::string &symbol, std::string_view name, int depth) {
  std::vector<Fact> arguments;
  if (!line.take(")")) {
    do {
      const SourceLine before = line;
      const std::string_view keyword = line.name();
      const bool named = !keyword.empty() && line.take("=");
      if (!named)
        line = before;
      const Fact argument = expression(line, depth + 1);
      if (!named || keyword != "rounding_mode") // which no sum of texts has
        arguments.push_back(argument);
    } while (line.take(", ") && !line.at(")"));
    line.expect(")");
  }
  check_call(line, symbol, name, arguments);
  Fact made;
  made.message = symbol == "aten::format";
  made.lists = 2; // at most, by the schemas
  made.constant = !made.message && !gives_no_constant(symbol) &&
                  std::all_of(arguments.begin(), arguments.end(),
                              [](const Fact &f) { return f.constant || f.text(); });
  if (kFolded.contains(name) || kDividing.contains(name))
    made.lists = 0;
  return made;
}

Fact Body::postfix(SourceLine &line, Fact made, int depth) {
  while (line.take("[")) {
    if (made.text())
      line.wrong("takes a part of text");
    const Fact index = expression(line, depth + 1);
    if (index.text() || index.tuple || index.lists > 2)
      line.wrong("has an index that is none");
    line.expect("]");
    made.lists = std::max(0, made.lists - 1);
    made.constant &= index.constant;
    made.tuple = false;
    made.integer.reset();
  }
  return made;
}

Fact Body::expression(SourceLine &line, int depth) {
  if (depth > kDeepestExpression)
    line.wrong("has more brackets in each other than any line has");
  Fact made;
  if (line.string()) {
    made.literal = made.constant = true;
    return made;
  }
  if (const auto number = line.number()) {
    made.constant = true;
    made.integer = number->integer;
    return made;
  }
  if (line.take("["))
    return postfix(line, list(line, depth), depth);
  if (line.take("("))
    return postfix(line, tuple(line, depth), depth);
  const std::string_view name = line.need_name();
  if (name == "True" || name == "False" || name == "None") {
    made.constant = true;
    return made;
  }
  if (name == "self") {
    line.expect(".");
    return known(line, "self." + std::string(line.need_name()));
  }
  if (name == "CONSTANTS") {
    line.expect(".c");
    const auto number = line.number();
    const std::int64_t index = number ? number->integer.value_or(-1) : -1;
    if (index < 0 || static_cast<std::size_t>(index) >= constants_.size())
      line.wrong("names a constant that is not there");
    made.literal = made.constant = constants_[static_cast<std::size_t>(index)];
    return made;
  }
  if (name == "torch" && line.take(".")) {
    const std::string op(line.need_name());
    line.expect("(");
    return postfix(line, call(line, "aten::" + op, op, depth), depth);
  }
  if (name == "ops" && line.take(".")) {
    const std::string space(line.need_name());
    line.expect(".");
    const std::string op(line.need_name());
    if (space == "prim" && !kPrim.contains(op))
      line.wrong(fmt::format("calls 'prim::{}'", op.substr(0, 80)));
    line.expect("(");
    return postfix(line, call(line, space + "::" + op, op, depth), depth);
  }
  if (name == "annotate" && line.take("(")) {
    type(line);
    line.expect(", ");
    return cast(line, depth);
  }
  if ((name == "bool" || name == "int" || name == "float") && line.take("("))
    return cast(line, depth);
  return postfix(line, known(line, name), depth);
}

void Body::assignment(SourceLine &line, std::string_view first) {
  std::vector<std::string_view> targets{first};
  bool unpacks = false;
  while (!line.take(" = ")) {
    line.expect(",");
    unpacks = true;
    if (line.take(" = "))
      break;
    line.expect(" ");
    targets.push_back(line.need_name());
  }
  std::vector<Fact> values{expression(line, 0)};
  while (unpacks && line.take(", "))
    values.push_back(expression(line, 0));
  line.end();
  if (values.size() == 1 && unpacks) { // of a list or a tuple
    if (values[0].text())
      line.wrong("takes text apart");
    values[0].lists = std::max(0, values[0].lists - (values[0].tuple ? 0 : 1));
    values[0].tuple = false;
    values[0].integer.reset();
    values.resize(targets.size(), values[0]);
  }
  if (values.size() != targets.size())
    line.wrong("assigns other values than variables");
  for (std::size_t i = 0; i < targets.size(); ++i)
    assign(line, targets[i], values[i]);
}

bool Body::statement(SourceLine line) {
  if (line.take("pass")) {
    line.end();
    return false;
  }
  if (line.take("else:")) {
    line.end();
    return true;
  }
  if (line.take("return ")) {
    expression(line, 0);
    line.end();
    return false;
  }
  if (line.take("if ") || line.take("while ")) {
    if (expression(line, 0).text())
      line.wrong("has text as a condition");
    line.expect(":");
    line.end();
    return true;
  }
  if (line.take("for ")) {
    assign(line, line.need_name(), {});
    line.expect(" in range(");
    cast(line, 0);
    line.expect(":");
    line.end();
    return true;
  }
  const SourceLine before = line;
  if (const std::string_view name = line.name();
      !name.empty() && (line.at(" = ") || line.at(","))) {
    assignment(line, name);
    return false;
  }
  line = before;
  expression(line, 0);
  line.end();
  return false;
}

/// The class, line by line.
class Class {
public:
  Class(std::string_view text, const std::set<std::string> &methods,
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
    std::unordered_map<std::string, Fact> names;
    for (const std::string &attribute : made_.attributes)
      names.emplace("self." + attribute, Fact{});
    line.expect("(self: __torch__.tracehost.Archive");
    while (line.take(",")) {
      line.end();
      if (!next())
        line.wrong("does not end");
      line = at_indent(4);
      if (!names.emplace(line.need_name(), Fact{}).second)
        line.wrong("has two arguments of one name");
      line.expect(": Tensor");
    }
    line.expect(") -> ");
    type(line);
    line.expect(":");
    line.end();
    return block(Body(std::move(names), constants_));
  }

  bool block(Body body) {
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
  CheckedSource made = Class(text, methods, constants).checked();
  for (const std::string &method : methods)
    if (!made.methods.contains(method))
      wrong_file(fmt::format("it has no method '{}'", method));
  return made;
}

} // namespace tracehost::archive
