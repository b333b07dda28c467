#include "report/remedy.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <bit>
#include <charconv>
#include <cstdlib>
#include <map>
#include <tuple>

namespace tracehost::report {
namespace {

using Strings = std::vector<std::string>;

bool has(const Strings &values, std::string_view value) {
  return std::find(values.begin(), values.end(), value) != values.end();
}

bool among(const Strings &values, std::initializer_list<std::string_view> allowed) {
  return std::all_of(values.begin(), values.end(), [&](const std::string &value) {
    return std::find(allowed.begin(), allowed.end(), value) != allowed.end();
  });
}

bool is_number(const std::string &text) {
  double value;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size();
}

bool are_numbers(const Strings &values) {
  return !values.empty() && std::all_of(values.begin(), values.end(), is_number);
}

bool is_whole(const std::string &text) {
  return text.find_first_not_of("-0123456789") == std::string::npos;
}

/// A Python expression for a number's text.
std::string literal(const std::string &number) {
  const bool finite = number.find('n') == std::string::npos; // inf, nan
  return finite ? number : fmt::format("float('{}')", number);
}

/// `x = x.to(torch.float32)` for each argument; `pattern` has the path at each {0}.
std::string assignments(const Finding &finding, const char *pattern) {
  Strings lines;
  for (std::size_t i = 0; i < finding.paths.size() && i < 2; ++i)
    lines.push_back(fmt::format(fmt::runtime(pattern), finding.paths[i]));
  return fmt::format("{}{}", fmt::join(lines, "; "), finding.paths.size() > 2 ? "; and so on" : "");
}

long largest(const Finding &finding) {
  long most = 0;
  for (const auto &value : finding.values)
    most = std::max(most, std::strtol(value.c_str(), nullptr, 10));
  return most;
}

/// F.pad counts its pairs from the last dimension back.
std::string padding(const std::string &path, int rank, const std::map<int, long> &sizes) {
  Strings pairs;
  rank = std::max(rank, sizes.rbegin()->first + 1);
  for (int d = rank - 1; d >= sizes.begin()->first; --d)
    pairs.push_back(sizes.contains(d) ? fmt::format("0, {} - {}.shape[{}]", sizes.at(d), path, d)
                                      : "0, 0");
  return fmt::format("{0} = torch.nn.functional.pad({0}, ({1}))", path, fmt::join(pairs, ", "));
}

/// One remedy for all dimensions of an argument that changed.
Remedy pad(std::span<const Finding> findings, std::size_t first) {
  const Finding &finding = findings[first];
  Remedy remedy{.kind = Remedy::Kind::pad};
  std::map<int, long> sizes; // by dimension
  for (std::size_t i = first; i < findings.size(); ++i) {
    const Finding &other = findings[i];
    if (other.kind != Finding::Kind::difference || other.cause != Cause::shape ||
        other.paths != finding.paths)
      continue;
    sizes[other.dimension] = largest(other);
    remedy.covers.push_back(i);
  }
  Strings lines;
  for (std::size_t i = 0; i < finding.paths.size() && i < 2; ++i)
    lines.push_back(padding(finding.paths[i], finding.ranks[i], sizes));
  const bool odd_batch = sizes.size() == 1 && finding.dimension == 0 && finding.values.size() == 2;
  remedy.text =
      fmt::format("{}pad to the largest size: {}{}",
                  odd_batch ? "drop the odd last batch, DataLoader(..., drop_last=True), or " : "",
                  fmt::join(lines, "; "), finding.paths.size() > 2 ? "; and so on" : "");
  return remedy;
}

std::string for_value(const Finding &finding) {
  if (!are_numbers(finding.values))
    return {};
  const std::string &last = finding.values.back();
  return fmt::format(
      "pass torch.tensor({}) for {} (or read it from a tensor): a tensor's value is not "
      "part of the signature{}",
      literal(last), quoted(finding.paths.front()),
      is_whole(last) ? " (not for a size or a count)" : "");
}

std::string for_type(const Finding &finding) {
  const std::string &path = finding.paths.front();
  if (among(finding.values, {"int", "float"}))
    return fmt::format(
        "pass torch.tensor(float({0})) for {1}: one dtype, and its value is not part of "
        "the signature",
        path, quoted(path));
  if (among(finding.values, {"list", "tuple"}))
    return fmt::format("pass a tuple always: tuple({})", path);
  if (has(finding.values, "None") && among(finding.values, {"None", "Tensor", "Parameter"}))
    return fmt::format(
        "pass a tensor for {} always (of zeros or ones in place of None), or make two "
        "Functions, one of them without it",
        quoted(path));
  return {};
}

std::string for_layout(const Finding &finding) {
  constexpr std::tuple<std::string_view, const char *, const char *> ways[] = {
      {"strides", "{0} = {0}.contiguous()", " before the call"},
      {"inference", "{0} = {0}.clone()", " outside torch.inference_mode()"},
      {"conj", "{0} = {0}.resolve_conj()", " before the call"},
      {"neg", "{0} = {0}.resolve_neg()", " before the call"},
      {"sparse", "{0} = {0}.to_dense()", " before the call"},
      {"mkldnn", "{0} = {0}.to_dense()", " before the call"}};
  for (const auto &[word, pattern, where] : ways)
    for (const std::string &value : finding.values)
      if (value.find(word) != std::string::npos)
        return assignments(finding, pattern) + where;
  return {};
}

std::string for_context(const Finding &finding, const Identity &function) {
  const std::string &field = finding.paths.front();
  const char *manager = field == "grad mode"            ? "torch.no_grad()"
                        : field == "inference mode"     ? "torch.inference_mode()"
                        : field.starts_with("autocast") ? "torch.autocast(...)"
                                                        : nullptr;
  if (!manager)
    return fmt::format("keep the {} as it is for all calls to {}", field, function.name);
  return fmt::format("call {} under one {}: {} around all its calls or around none", function.name,
                     field, manager);
}

std::string for_guarded(const Finding &finding) {
  const std::string &path = finding.paths.front();
  constexpr std::string_view flag = ".training";
  if (path.ends_with(flag) && among(finding.values, {"True", "False"})) {
    const std::string module = path.substr(0, path.size() - flag.size());
    return fmt::format("call {0}.eval() or {0}.train() once, not between the calls", module);
  }
  if (path.find(".grad") != std::string::npos &&
      among(finding.values, {"None", "a tensor", "a tensor that requires grad"}))
    return fmt::format("let {} be the same before each call: zero_grad() at the end of a step",
                       quoted(path));
  if (are_numbers(finding.values))
    return fmt::format(
        "keep a tensor in {}, torch.tensor({}), and write to it with fill_: a tensor's "
        "value is not part of the signature",
        quoted(path), literal(finding.values.back()));
  return fmt::format("set {} once, before the first call", quoted(path));
}

std::string for_difference(const Finding &finding, const Identity &function) {
  const std::string &path = finding.paths.front();
  switch (finding.cause) {
  case Cause::dtype:
    return assignments(finding,
                       fmt::format("{{0}} = {{0}}.to(torch.{})", finding.values.front()).c_str()) +
           " before the call";
  case Cause::device: {
    const auto other = std::find_if(finding.values.begin(), finding.values.end(),
                                    [](const std::string &device) { return device != "cpu"; });
    return assignments(finding, fmt::format("{{0}} = {{0}}.to('{}')", *other).c_str()) +
           " before the call";
  }
  case Cause::layout:
    return for_layout(finding);
  case Cause::requires_grad:
    return among(finding.values, {"True", "False"})
               ? assignments(finding, "{0} = {0}.detach()") +
                     " before all calls that need no gradient, or before none"
               : std::string();
  case Cause::subclass:
    return assignments(finding, "{0} = {0}.as_subclass(torch.Tensor)") + " before the call";
  case Cause::alias:
    return fmt::format("pass {}.clone() where it is the same tensor as another argument", path);
  case Cause::value:
    return for_value(finding);
  case Cause::type:
    return for_type(finding);
  case Cause::object:
    return fmt::format("create {} once, outside the loop, and pass the same object", quoted(path));
  case Cause::context:
    return for_context(finding, function);
  case Cause::guarded:
    return for_guarded(finding);
  case Cause::capture:
    return fmt::format("keep shape, dtype and device of {}; copy_ into it to change its values",
                       quoted(path));
  default: // rank, structure: what to pass instead depends on the body; shape is padded
    return {};
  }
}

Remedy reduce(std::span<const Finding> findings, const Account &account) {
  Remedy remedy{.text = "@tracehost.function(reduce_retracing=True)", .kind = Remedy::Kind::reduce};
  for (std::size_t i = 0; i < findings.size(); ++i)
    if (findings[i].kind == Finding::Kind::difference && findings[i].cause == Cause::shape &&
        specialized(findings[i], account).empty())
      remedy.covers.push_back(i);
  return remedy;
}

Remedy declare(std::span<const Finding> findings, const Account &account) {
  Remedy remedy{.kind = Remedy::Kind::declare};
  auto declared = report::declare(account.known);
  if (!declared)
    return remedy;
  for (std::size_t i = 0; i < findings.size(); ++i)
    if (findings[i].kind == Finding::Kind::difference &&
        (findings[i].cause == Cause::shape || findings[i].cause == Cause::rank ||
         is_number(findings[i])))
      remedy.covers.push_back(i);
  remedy.text = fmt::format("@tracehost.function(input_signature={})", declared->text);
  remedy.declared = std::move(*declared);
  return remedy;
}

/// What has a graph of its own, each time that it changes, and what to do instead.
constexpr std::tuple<Cause, const char *, const char *> kOwnGraphs[] = {
    {Cause::rank, "number of dimensions", "reshape or unsqueeze it"},
    {Cause::structure, "length or set of keys", "pass a fixed one, or one stacked tensor"},
    {Cause::value, "value", "pass few of them, or make a Function for each"},
    {Cause::type, "type", "pass one"}};

std::string for_evicted(const Account &account) {
  const std::size_t needed = std::max(account.signatures, account.limit + 1);
  return fmt::format("raise the limit: @tracehost.function(limit={})", std::bit_ceil(needed));
}

} // namespace

std::vector<SpecializedSize> specialized(const Finding &finding, const Account &account) {
  std::vector<SpecializedSize> result;
  for (const TraceRecord &record : account.window())
    for (const SpecializedSize &one : record.specialized)
      if (finding.cause == Cause::shape && one.dimension == finding.dimension &&
          has(finding.paths, one.path))
        result.push_back(one);
  return result;
}

bool is_number(const Finding &finding) {
  if (finding.kind != Finding::Kind::difference)
    return false;
  return finding.cause == Cause::value  ? are_numbers(finding.values)
         : finding.cause == Cause::type ? among(finding.values, {"int", "float", "Tensor"})
                                        : false;
}

std::vector<Remedy> remedies(std::span<const Finding> findings, const Account &account) {
  std::vector<Remedy> result;
  const auto add = [&](Remedy remedy) {
    if (!remedy.covers.empty())
      result.push_back(std::move(remedy));
  };
  if (!account.function.declared && !account.function.reduces)
    add(reduce(findings, account));
  if (!account.function.declared)
    add(declare(findings, account));
  std::vector<bool> covered(findings.size());
  for (std::size_t i = 0; i < findings.size(); ++i) {
    if (covered[i])
      continue; // another dimension of an argument that is padded already
    Remedy remedy{.covers = {i}};
    if (findings[i].kind == Finding::Kind::again)
      remedy.text =
          fmt::format("apply @tracehost.function once, above the loop, to {} ({}), and call "
                      "what it returns",
                      account.function.name, text(account.function.definition));
    else if (findings[i].kind == Finding::Kind::evicted)
      remedy.text = for_evicted(account);
    else if (findings[i].kind == Finding::Kind::difference && findings[i].cause == Cause::shape)
      remedy = pad(findings, i);
    else if (findings[i].kind == Finding::Kind::difference)
      remedy.text = for_difference(findings[i], account.function);
    for (const std::size_t index : remedy.covers)
      covered[index] = true;
    if (!remedy.text.empty())
      result.push_back(std::move(remedy));
  }
  return result;
}

std::size_t saved(std::span<const Finding> findings, const std::vector<bool> &covered,
                  const Account &account) {
  struct Trace {
    bool differs = false, remains = false; ///< by a difference at all; by one that is not covered
    bool served = false; ///< by a Specialization kept, or by an earlier Function's
  };
  const auto window = account.window();
  std::vector<Trace> traces(window.size());
  for (std::size_t f = 0; f < findings.size(); ++f)
    for (const std::size_t t : findings[f].traces) {
      if (findings[f].kind == Finding::Kind::difference) {
        traces[t].differs = true;
        traces[t].remains |= !covered[f];
      } else if (covered[f]) {
        traces[t].served |= findings[f].kind == Finding::Kind::evicted || window[t].seen;
      }
    }
  std::size_t count = 0;
  for (std::size_t t = 0; t < traces.size(); ++t)
    count += traces[t].served || (traces[t].differs && !traces[t].remains && window[t].complete);
  return count;
}

std::string advice(const Finding &finding, const Account &account) {
  const std::string at = finding.calls.empty() ? std::string() : text(finding.calls.front().first);
  const std::string where = at.empty() ? std::string() : " at " + at;
  switch (finding.kind) {
  case Finding::Kind::again:
    return fmt::format(
        "{}: apply the decorator once, above the loop; the calls differ in their arguments too",
        text(account.function.definition));
  case Finding::Kind::emptied:
    return "calls to clear(), and arguments that are new at each call" + where;
  case Finding::Kind::once:
    return "what the line above names: do that outside of the function";
  case Finding::Kind::evicted:
    return "how many signatures are live, in tracehost.report()";
  case Finding::Kind::unnamed:
    return "the __eq__ of the arguments" + where;
  case Finding::Kind::difference:
    break;
  }
  if (finding.cause == Cause::condition)
    return fmt::format("{}: a comparison of sizes; each of its outcomes is a graph of its own",
                       finding.paths.front());
  const std::string path = quoted(finding.paths.front());
  if (finding.cause == Cause::read)
    return fmt::format("{}: it reads {} as a number, and each value is a graph of its own; keep "
                       "the computation in tensors",
                       finding.where, path);
  for (const auto &[cause, each, instead] : kOwnGraphs)
    if (finding.cause == cause)
      return fmt::format("{}{}: each {} is a graph of its own; {}", path, where, each, instead);
  return fmt::format("what sets {}{}", path, where);
}

} // namespace tracehost::report
