#include "archive/manifest.h"

#include "archive/limits.h"
#include "archive/tree.h"

#include <ATen/ops/empty.h>
#include <c10/core/ScalarType.h>

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <limits>
#include <set>
#include <string_view>
#include <utility>

namespace tracehost::archive {
namespace {

template <std::size_t N>
std::size_t index_of(const std::array<const char *, N> &names, const std::string &name) {
  const auto found = std::find(names.begin(), names.end(), name);
  if (found == names.end())
    wrong_manifest(fmt::format("'{}' is no known name", name));
  return static_cast<std::size_t>(found - names.begin());
}

template <class T> Json list_json(const std::vector<T> &items, Json (*json_of)(const T &)) {
  Json json = Json::array();
  for (const T &item : items)
    json.push_back(json_of(item));
  return json;
}

at::ScalarType dtype_of(const std::string &name) {
  const auto &all = c10::getStringToDtypeMap();
  const auto found = all.find(name);
  if (found == all.end())
    wrong_manifest(fmt::format("'{}' is no dtype", name));
  return found->second;
}

// ---- tensors ------------------------------------------------------------------------------------

constexpr std::array<const char *, 4> kLayouts = {"strided", "sparse", "sparse_csr", "nested"};

Json meta_json(const TensorMeta &meta) {
  Json sizes = Json::array();
  for (const std::int64_t size : meta.sizes)
    sizes.push_back(size == kAnySize ? Json() : Json(size));
  Json json{{"dtype", dtype_name(meta.dtype)}, {"sizes", std::move(sizes)}};
  if (!meta.device.is_cpu())
    json["device"] = meta.device.str();
  if (meta.requires_grad)
    json["requires_grad"] = true;
  if (!meta.is_leaf)
    json["is_leaf"] = false;
  const std::string layout = meta.layout();
  json["layout"] = layout.substr(0, layout.find(','));
  if (json["layout"] == "strided")
    json.erase("layout");
  if (meta.keys.has(c10::DispatchKey::Conjugate))
    json["conj"] = true;
  if (meta.keys.has(c10::DispatchKey::Negative))
    json["neg"] = true;
  if (!meta.contiguous)
    json["contiguous"] = false;
  json["strides"] = std::vector<std::int64_t>(meta.strides.begin(), meta.strides.end());
  return json;
}

at::Layout layout_of(const std::string &name) {
  const std::array<at::Layout, 3> layouts = {at::kStrided, at::kSparse, at::kSparseCsr};
  const std::size_t index = index_of(kLayouts, name);
  if (index >= layouts.size())
    wrong_manifest("a nested tensor");
  return layouts[index];
}

constexpr std::int64_t kLargestSize = std::int64_t{1} << 60;
constexpr std::size_t kHighestRank = 64;

std::vector<std::int64_t> whole_numbers(const Json &json, const char *key) {
  std::vector<std::int64_t> result;
  for (const Json &number : list(json, key))
    result.push_back(number.is_null() ? kAnySize : integer(number, 0, kLargestSize));
  if (result.size() > kHighestRank)
    wrong_manifest("a tensor has too many dimensions");
  return result;
}

TensorMeta meta_of(const Json &json) {
  TensorMeta meta;
  meta.dtype = dtype_of(member(json, "dtype").get<std::string>());
  meta.device = c10::Device(json.value("device", "cpu"));
  meta.requires_grad = json.value("requires_grad", false);
  meta.is_leaf = json.value("is_leaf", true);
  meta.contiguous = json.value("contiguous", true);
  const auto sizes = whole_numbers(json, "sizes");
  meta.sizes.assign(sizes.begin(), sizes.end());
  meta.dynamic = std::find(sizes.begin(), sizes.end(), kAnySize) != sizes.end();
  const auto strides = whole_numbers(json, "strides");
  meta.strides.assign(strides.begin(), strides.end());
  meta.keys = new_keys(meta.dtype, layout_of(json.value("layout", "strided")), at::kCPU,
                       json.value("conj", false), json.value("neg", false));
  return meta;
}

// ---- conditions, guards, context ----------------------------------------------------------------

constexpr std::array<const char *, 16> kTerms = {"constant", "size", "+",   "-",  "*",  "//",
                                                 "%",        "==",   "!=",  "<",  "<=", "not",
                                                 "and",      "or",   "min", "max"};

Json condition_json(const SizeCondition &condition) {
  Json terms = Json::array();
  for (const SizeTerm &term : condition.expression)
    switch (term.op) {
    case SizeTerm::Op::constant:
      terms.push_back(term.value);
      break;
    case SizeTerm::Op::size:
      terms.push_back(Json::array({term.slot, term.dimension}));
      break;
    default:
      terms.push_back(kTerms[static_cast<std::size_t>(term.op)]);
    }
  return {{"postfix", std::move(terms)}, {"is", condition.expected}, {"where", condition.where}};
}

/// Requires: `slots` are read. So that holds() finds what it reads.
SizeCondition condition_of(const Json &json, const std::vector<TensorMeta> &slots) {
  SizeCondition condition;
  condition.expected = member(json, "is").get<bool>();
  condition.where = member(json, "where").get<std::string>();
  std::size_t depth = 0;
  for (const Json &term : list(json, "postfix")) {
    SizeTerm made;
    std::size_t takes = 0;
    if (term.is_number_integer()) {
      made.value = integer(term, std::numeric_limits<std::int64_t>::min(),
                           std::numeric_limits<std::int64_t>::max());
    } else if (term.is_array() && term.size() == 2) {
      made.op = SizeTerm::Op::size;
      constexpr std::int64_t most = std::numeric_limits<std::int32_t>::max();
      made.slot = static_cast<std::int32_t>(integer(term[0], 0, most));
      made.dimension = static_cast<std::int32_t>(integer(term[1], 0, most));
      if (static_cast<std::size_t>(made.slot) >= slots.size() ||
          static_cast<std::size_t>(made.dimension) >=
              slots[static_cast<std::size_t>(made.slot)].sizes.size())
        wrong_manifest("a condition on a size that is not there");
    } else {
      const std::size_t op = index_of(kTerms, term.get<std::string>());
      made.op = static_cast<SizeTerm::Op>(op);
      if (made.op == SizeTerm::Op::constant || made.op == SizeTerm::Op::size)
        wrong_manifest("a condition without what it reads");
      takes = made.op == SizeTerm::Op::logical_not ? 1 : 2;
    }
    if (depth < takes)
      wrong_manifest("a condition without what it compares");
    depth = depth - takes + 1;
    if (depth > kDeepestTerms || condition.expression.size() == kMostTerms)
      wrong_manifest("a condition has too many terms");
    condition.expression.push_back(made);
  }
  if (depth != 1)
    wrong_manifest("a condition with more than one value left");
  return condition;
}

Json context_json(const Context &context) {
  Json json{{"grad", context.grad},
            {"inference", context.inference},
            {"deterministic", context.deterministic},
            {"default_dtype", dtype_name(context.default_dtype)}};
  if (context.autocast_cpu != at::ScalarType::Undefined)
    json["autocast_cpu"] = dtype_name(context.autocast_cpu);
  if (context.autocast_cuda != at::ScalarType::Undefined)
    json["autocast_cuda"] = dtype_name(context.autocast_cuda);
  return json;
}

Context context_of(const Json &json) {
  Context context;
  context.grad = member(json, "grad").get<bool>();
  context.inference = member(json, "inference").get<bool>();
  context.deterministic = member(json, "deterministic").get<bool>();
  context.default_dtype = dtype_of(member(json, "default_dtype").get<std::string>());
  if (json.contains("autocast_cpu"))
    context.autocast_cpu = dtype_of(json["autocast_cpu"].get<std::string>());
  if (json.contains("autocast_cuda"))
    context.autocast_cuda = dtype_of(json["autocast_cuda"].get<std::string>());
  return context;
}

// ---- specializations ----------------------------------------------------------------------------

Json record_json(const Record &record) {
  const Signature &s = record.signature;
  Json arguments = Json::array(), captures = Json::array(), checked = Json::array();
  for (std::size_t at = 0; at < s.nodes.size();)
    arguments.push_back(tree_json(s.nodes, at));
  for (const CheckedNumber &number : s.checked)
    checked.push_back({{"where", number.where}, {"value", number.value}});
  for (std::size_t i = 0; i < s.captures.size(); ++i)
    captures.push_back({{"path", s.captures[i].path},
                        {"attribute", record.state.attributes[i]},
                        {"tensor", meta_json(s.captures[i].meta)}});
  std::size_t at = 0;
  Json result{{"tree", tree_json(record.outputs.nodes, at)},
              {"tensors", record.outputs.tensors},
              {"traced", list_json(record.state.outputs, meta_json)}};
  Json json{{"method", record.state.method},
            {"graph", record.graph},
            {"arguments", std::move(arguments)},
            {"tensors", list_json(s.slots, meta_json)},
            {"conditions", list_json(s.conditions, condition_json)},
            {"checked", std::move(checked)},
            {"context", context_json(s.context)},
            {"reads_strides", s.reads_strides},
            {"reads_leaf", s.reads_leaf},
            {"sets_modes", record.state.sets_modes},
            {"captures", std::move(captures)},
            {"result", std::move(result)}};
  if (!record.state.no_torchscript.empty())
    json["no_torchscript"] = record.state.no_torchscript;
  return json;
}

Record record_of(const Json &json, const std::shared_ptr<const Parameters> &parameters) {
  Record record;
  record.state.method = member(json, "method").get<std::string>();
  record.graph = static_cast<std::size_t>(
      integer(member(json, "graph"), 0, std::numeric_limits<std::int32_t>::max()));
  if (json.contains("no_torchscript"))
    record.state.no_torchscript = json["no_torchscript"].get<std::string>();
  Signature &s = record.signature;
  s.parameters = parameters;
  for (const Json &slot : list(json, "tensors"))
    s.slots.push_back(meta_of(slot));
  const Json &arguments = member(json, "arguments");
  if (!arguments.is_array() || arguments.size() != parameters->names.size())
    wrong_manifest("a specialization has other arguments than parameters");
  for (const Json &argument : arguments)
    add_tree(argument, s.slots.size(), s.nodes, s.atoms);
  for (std::uint32_t slot = 0; slot < s.slots.size(); ++slot)
    if (s.first_node(slot) == s.nodes.size())
      wrong_manifest("a tensor that is no argument");
  for (const Json &capture : list(json, "captures")) {
    s.captures.push_back({.path = member(capture, "path").get<std::string>(),
                          .meta = meta_of(member(capture, "tensor")),
                          .held = true});
    record.state.attributes.push_back(member(capture, "attribute").get<std::string>());
  }
  for (const Json &condition : list(json, "conditions"))
    s.conditions.push_back(condition_of(condition, s.slots));
  // Of value_reads="guard", which 0.1 had.
  if (json.contains("values") && !json["values"].empty())
    throw Error(
        "it has a graph for one value of an input, which this version cannot compare. Trace "
        "it again without value_reads=\"guard\", and save that.");
  for (const Json &number : list(json, "checked"))
    s.checked.push_back(
        {member(number, "where").get<std::string>(), member(number, "value").get<std::string>()});
  s.context = context_of(member(json, "context"));
  s.reads_strides = member(json, "reads_strides").get<bool>();
  s.reads_leaf = member(json, "reads_leaf").get<bool>();
  record.state.sets_modes = member(json, "sets_modes").get<bool>();
  const Json &result = member(json, "result");
  const Json &tensors = member(result, "tensors");
  for (const Json &meta : list(result, "traced"))
    record.state.outputs.push_back(meta_of(meta));
  if (!tensors.is_number_unsigned() || tensors.get<std::size_t>() != record.state.outputs.size())
    wrong_manifest("a result has other tensors than it had");
  record.outputs.tensors = tensors.get<std::size_t>();
  add_tree(member(result, "tree"), record.outputs.tensors, record.outputs.nodes,
           record.outputs.atoms);
  return record;
}

// ---- functions ----------------------------------------------------------------------------------

constexpr std::array<const char *, 4> kKinds = {"positional", "var_positional", "keyword",
                                                "var_keyword"};

Json function_json(const Manifest::Function &function) {
  Json parameters = Json::array();
  const Parameters &p = *function.parameters;
  for (std::size_t i = 0; i < p.names.size(); ++i) {
    const auto kind = i < p.kinds.size() ? p.kinds[i] : Parameters::Kind::positional;
    Json parameter{{"name", p.names[i]}, {"kind", kKinds[static_cast<std::size_t>(kind)]}};
    if (const auto &value = function.defaults[i]) {
      std::size_t at = 0;
      parameter["default"] = Json{{"value", tree_json(value->nodes, at)},
                                  {"text", i < p.defaults.size() ? p.defaults[i] : ""}};
    }
    parameters.push_back(std::move(parameter));
  }
  return {{"name", function.name},
          {"parameters", std::move(parameters)},
          {"specializations", list_json(function.specializations, record_json)}};
}

/// In the order and with the names that a function of Python's can have.
void check_parameters(const Parameters &parameters) {
  using Kind = Parameters::Kind;
  std::set<std::string_view> names;
  for (std::size_t i = 0; i < parameters.names.size(); ++i) {
    const Kind kind = parameters.kinds[i];
    std::string_view name = parameters.names[i];
    if (kind == Kind::var_positional || kind == Kind::var_keyword)
      name.remove_prefix(std::min(name.find_first_not_of('*'), name.size()));
    const bool again = i > 0 && kind == parameters.kinds[i - 1] &&
                       (kind == Kind::var_positional || kind == Kind::var_keyword);
    if (!is_identifier(name) || !names.insert(name).second || again ||
        (i > 0 && kind < parameters.kinds[i - 1]))
      wrong_manifest("a function has parameters that are not valid in Python");
  }
}

Manifest::Function function_of(const Json &json) {
  Manifest::Function function;
  function.name = member(json, "name").get<std::string>();
  if (!is_identifier(function.name))
    wrong_manifest("a function's name is not an identifier");
  auto made = std::make_shared<Parameters>();
  for (const Json &parameter : list(json, "parameters")) {
    made->names.push_back(member(parameter, "name").get<std::string>());
    made->kinds.push_back(static_cast<Parameters::Kind>(
        index_of(kKinds, member(parameter, "kind").get<std::string>())));
    made->defaults.emplace_back();
    auto &value = function.defaults.emplace_back();
    if (!parameter.contains("default"))
      continue;
    const Json &given = parameter["default"];
    value.emplace();
    add_tree(member(given, "value"), 0, value->nodes, value->atoms);
    made->defaults.back() = member(given, "text").get<std::string>();
  }
  check_parameters(*made);
  function.parameters = made;
  for (const Json &record : list(json, "specializations"))
    function.specializations.push_back(record_of(record, function.parameters));
  return function;
}

} // namespace

c10::DispatchKeySet new_keys(at::ScalarType dtype, at::Layout layout, const c10::Device &device,
                             bool conj, bool neg) {
  const auto options = at::TensorOptions().dtype(dtype).layout(layout).device(device);
  c10::DispatchKeySet keys = at::empty({layout == at::kStrided ? 0 : 1, 0}, options).key_set();
  if (conj)
    keys = keys.add(c10::DispatchKey::Conjugate);
  if (neg)
    keys = keys.add(c10::DispatchKey::Negative);
  return keys;
}

std::string to_json(const Manifest &manifest) {
  Json json{{"format", "tracehost archive"},
            {"version", manifest.version},
            {"tracehost", manifest.tracehost},
            {"torch", manifest.torch},
            {"device", manifest.device.str()},
            {"payload", manifest.payload},
            {"libraries", manifest.libraries},
            {"functions", list_json(manifest.functions, function_json)}};
  if (!manifest.metadata.empty())
    json["metadata"] = manifest.metadata;
  return json.dump(1) + "\n";
}

/// Each graph is one specialization's, and has a name of its own.
static void check_graphs(const Manifest &manifest) {
  std::set<std::size_t> graphs;
  std::set<std::string_view> methods;
  for (const Manifest::Function &function : manifest.functions)
    for (const Record &record : function.specializations)
      if (!graphs.insert(record.graph).second || !methods.insert(record.state.method).second ||
          !is_identifier(record.state.method))
        wrong_manifest(fmt::format("graph {}, '{}', is two specializations' or has no name",
                                   record.graph, record.state.method));
}

Manifest from_json(const std::string &text) {
  try {
    const Json json = Json::parse(text, [](int depth, Json::parse_event_t, Json &) {
      if (depth > kDeepestJson)
        wrong_manifest("it nests its values too deep");
      return true;
    });
    Manifest manifest;
    if (member(json, "format") != "tracehost archive")
      wrong_manifest("it is of another format");
    manifest.version = static_cast<int>(integer(
        member(json, "version"), std::numeric_limits<int>::min(), std::numeric_limits<int>::max()));
    manifest.tracehost = member(json, "tracehost").get<std::string>();
    manifest.torch = member(json, "torch").get<std::string>();
    if (manifest.version > kVersion)
      throw Error(fmt::format("it is of version {} of the format, written by tracehost {}; this is "
                              "tracehost {}, which reads version {}. Update tracehost.",
                              manifest.version, manifest.tracehost, TRACEHOST_VERSION, kVersion));
    if (manifest.version < kVersion)
      throw Error(fmt::format("it is of version {} of the format, written by tracehost {}; this is "
                              "tracehost {}, which reads version {}. Save it again.",
                              manifest.version, manifest.tracehost, TRACEHOST_VERSION, kVersion));
    manifest.payload = member(json, "payload").get<std::string>();
    manifest.device = c10::Device(member(json, "device").get<std::string>());
    manifest.libraries = member(json, "libraries").get<std::vector<std::string>>();
    if (json.contains("metadata"))
      manifest.metadata = json["metadata"].get<std::map<std::string, std::string>>();
    for (const Json &function : list(json, "functions"))
      manifest.functions.push_back(function_of(function));
    check_graphs(manifest);
    return manifest;
  } catch (const Json::exception &e) {
    wrong_manifest(e.what());
  } catch (const c10::Error &e) { // no device has that name
    wrong_manifest(e.what_without_backtrace());
  }
}

} // namespace tracehost::archive
