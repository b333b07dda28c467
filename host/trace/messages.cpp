#include "trace/messages.h"

#include "program/numbers.h"
#include "trace/numbers.h"
#include "trace/scope.h"

#include <torch/csrc/jit/frontend/tracer.h>

#include <fmt/format.h>

#include <regex>

namespace tracehost::trace {

namespace tracer = torch::jit::tracer;

namespace {

/// Whether each run that comes to the insert point has run the block of `value`.
bool is_visible(const jit::Graph &graph, const jit::Value *value) {
  const jit::Block *block = const_cast<jit::Graph &>(graph).insertPoint()->owningBlock();
  while (block && block != value->node()->owningBlock())
    block = block->owningNode() ? block->owningNode()->owningBlock() : nullptr;
  return block;
}

/// Of the kind that the number has at the trace.
bool has_text(NumberKind kind, std::string_view spec) {
  const c10::IValue one = kind == NumberKind::boolean   ? c10::IValue(true)
                          : kind == NumberKind::integer ? c10::IValue(std::int64_t{1})
                                                        : c10::IValue(1.0);
  return text_of_number(one, spec).has_value();
}

} // namespace

std::string mark_of_text(const at::Tensor &number, std::string_view spec, const std::string &kind) {
  const auto &state = tracer::getTracingState();
  if (!is_traced_number(number) || !has_text(*number_kind(number.scalar_type()), spec))
    return fmt::format("<traced {}>", kind);
  jit::Graph &graph = *state->graph;
  jit::Value *scalar = state->getValue(number)->node()->input(0);
  if (const auto value = value_of_number(number))
    current->meet(scalar, *value);
  jit::Value *text =
      graph.insert(c10::Symbol::fromQualString(std::string(kTextOp)), {scalar, std::string(spec)});
  current->texts.push_back(text);
  return fmt::format("<traced {} #{}>", kind, current->texts.size() - 1);
}

jit::Value *insert_message(jit::Graph &graph, const std::string &message) {
  static const std::regex mark("<traced (?:bool|int|float) #([0-9]{1,6})>");
  jit::Value *made = nullptr;
  std::string plain;
  const auto add = [&](jit::Value *part) {
    made = made ? graph.insert(c10::Symbol::fromQualString("aten::add"), {made, part}) : part;
  };
  const auto add_plain = [&] {
    if (!plain.empty() || !made)
      add(graph.insertConstant(plain));
    plain.clear();
  };
  auto from = message.begin();
  for (std::sregex_iterator at(message.begin(), message.end(), mark), end; at != end; ++at) {
    const auto index = static_cast<std::size_t>(std::stoul(at->str(1)));
    jit::Value *text = index < current->texts.size() ? current->texts[index] : nullptr;
    plain.append(from, message.begin() + at->position());
    from = message.begin() + at->position() + at->length();
    if (!text || !is_visible(graph, text)) {
      plain += at->str().substr(0, at->str().find(" #")) + ">";
      continue;
    }
    if (!plain.empty())
      add_plain();
    add(text);
  }
  plain.append(from, message.end());
  if (!plain.empty() || !made)
    add_plain();
  return made;
}

} // namespace tracehost::trace
