#include "archive/source_body.h"

#include "archive/limits.h"

#include <ATen/core/interned_strings.h>
#include <torch/csrc/jit/runtime/operator.h>

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <unordered_set>

namespace tracehost::archive {
namespace {

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
/// Have a meaning, which no variable changes, besides Python's keywords.
const std::unordered_set<std::string_view> kTaken = {
    "torch", "ops", "self", "CONSTANTS", "annotate", "bool", "int",           "float",
    "range", "inf", "nan",  "infj",      "nanj",     "fork", "uninitialized", "unchecked_cast"};

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

} // namespace

void check_type(SourceLine &line, int depth) {
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
  check_type(line, depth + 1);
  while (name == "Tuple" && line.take(", "))
    check_type(line, depth + 1);
  line.expect("]");
}

Fact SourceBody::known(const SourceLine &line, std::string_view name) const {
  const auto found = names_.find(std::string(name));
  if (found == names_.end())
    line.wrong(fmt::format("reads '{}', which is no value", name.substr(0, 80)));
  return found->second;
}

void SourceBody::assign(const SourceLine &line, std::string_view name, const Fact &value) {
  if (is_keyword(name) || kTaken.contains(name) || name.starts_with("__"))
    line.wrong(fmt::format("assigns to '{}'", name.substr(0, 80)));
  const auto [at, is_new] = names_.emplace(name, value);
  if (!is_new)
    at->second.join(value);
}

Fact SourceBody::list(SourceLine &line, int depth) {
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

Fact SourceBody::tuple(SourceLine &line, int depth) {
  Fact first = expression(line, depth + 1);
  if (line.take(")"))
    return first;
  Fact made{.tuple = true, .lists = first.lists};
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
Fact SourceBody::cast(SourceLine &line, int depth) {
  Fact made = expression(line, depth + 1);
  if (made.text() || made.tuple)
    line.wrong("has text or a tuple as a number");
  made.integer.reset();
  line.expect(")");
  return made;
}

void SourceBody::check_call(const SourceLine &line, const std::string &symbol,
                            std::string_view name, const std::vector<Fact> &arguments) const {
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
Fact SourceBody::call(SourceLine &line, const std::string &symbol, std::string_view name,
                      int depth) {
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

Fact SourceBody::postfix(SourceLine &line, Fact made, int depth) {
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

Fact SourceBody::expression(SourceLine &line, int depth) {
  if (depth > kDeepestExpression)
    line.wrong("has more brackets in each other than any line has");
  if (line.string())
    return {.constant = true, .literal = true};
  if (const auto number = line.number())
    return {.constant = true, .integer = number->integer};
  if (line.take("["))
    return postfix(line, list(line, depth), depth);
  if (line.take("("))
    return postfix(line, tuple(line, depth), depth);
  const std::string_view name = line.need_name();
  if (name == "True" || name == "False" || name == "None")
    return {.constant = true};
  if (name == "self") {
    line.expect(".");
    const std::string attribute(line.need_name());
    if (!attributes_.contains(attribute))
      line.wrong(fmt::format("reads 'self.{}', which is no value", attribute.substr(0, 80)));
    return {};
  }
  if (name == "CONSTANTS") {
    line.expect(".c");
    const auto number = line.number();
    const std::int64_t index = number ? number->integer.value_or(-1) : -1;
    if (index < 0 || static_cast<std::size_t>(index) >= constants_.size())
      line.wrong("names a constant that is not there");
    const bool text = constants_[static_cast<std::size_t>(index)];
    return {.constant = text, .literal = text};
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
    check_type(line);
    line.expect(", ");
    return cast(line, depth);
  }
  if ((name == "bool" || name == "int" || name == "float") && line.take("("))
    return cast(line, depth);
  return postfix(line, known(line, name), depth);
}

void SourceBody::assignment(SourceLine &line, std::string_view first) {
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

bool SourceBody::statement(SourceLine line) {
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

} // namespace tracehost::archive
