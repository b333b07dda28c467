#include "trace/messages.h"

#include "program/nodes.h"
#include "program/numbers.h"
#include "trace/numbers.h"
#include "trace/trace.h"

#include <torch/csrc/jit/frontend/tracer.h>

#include <fmt/format.h>

#include <regex>
#include <vector>

namespace tracehost::trace {

namespace tracer = torch::jit::tracer;

namespace {

/// Whether a number of this kind has a text for `spec`. `kind`: as at the trace.
bool has_text(NumberKind kind, std::string_view spec) {
  const c10::IValue one = kind == NumberKind::boolean   ? c10::IValue(true)
                          : kind == NumberKind::integer ? c10::IValue(std::int64_t{1})
                                                        : c10::IValue(1.0);
  return text_of_number(one, spec).has_value();
}

} // namespace

std::string mark_of_text(const at::Tensor &number, std::string_view spec, const std::string &kind) {
  const bool known = is_traced_number(number) || is_traced_size(number);
  if (!known || !has_text(*number_kind(number.scalar_type()), spec))
    return fmt::format("<traced {}>", kind);
  jit::Graph &graph = *tracer::getTracingState()->graph;
  jit::Value *scalar = scalar_of(number);
  jit::Value *text =
      graph.insert(c10::Symbol::fromQualString(std::string(kTextOp)), {scalar, std::string(spec)});
  current->number_arguments.texts.push_back(text);
  return fmt::format("<traced {} #{}>", kind, current->number_arguments.texts.size() - 1);
}

jit::Value *insert_message(jit::Graph &graph, const std::string &message) {
  static const std::regex mark("<traced (?:bool|int|float) #([0-9]{1,6})>");
  std::string pattern;
  std::vector<jit::Value *> texts = {nullptr}; // behind the pattern
  const auto add_plain = [&](std::string_view plain) {
    for (std::size_t at; (at = plain.find("{}")) != plain.npos; plain.remove_prefix(at + 2)) {
      pattern.append(plain.substr(0, at)).append("{}");
      texts.push_back(graph.insertConstant(std::string("{}")));
    }
    pattern.append(plain);
  };
  std::string_view rest = message;
  for (std::sregex_iterator at(message.begin(), message.end(), mark), end; at != end; ++at) {
    const auto index = static_cast<std::size_t>(std::stoul(at->str(1)));
    jit::Value *text = index < current->number_arguments.texts.size()
                           ? current->number_arguments.texts[index]
                           : nullptr;
    const std::string_view whole(&*at->begin()->first, static_cast<std::size_t>(at->length()));
    add_plain(rest.substr(0, static_cast<std::size_t>(whole.data() - rest.data())));
    rest.remove_prefix(static_cast<std::size_t>(whole.data() - rest.data()) + whole.size());
    if (text && graph.insertPoint()->isDominatedBy(text->node())) {
      pattern += "{}";
      texts.push_back(text);
    } else {
      pattern.append(whole.substr(0, whole.find(" #"))).append(">");
    }
  }
  if (texts.size() == 1)
    return graph.insertConstant(message.empty() ? message : pattern + std::string(rest));
  add_plain(rest);
  texts.front() = graph.insertConstant(pattern);
  return insert_op(graph, "aten::format", texts, 1)->output()->setType(c10::StringType::get());
}

} // namespace tracehost::trace
