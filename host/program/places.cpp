#include "program/places.h"

#include "program/nodes.h"

#include <torch/csrc/jit/serialization/source_range_serialization.h>

#include <memory>
#include <optional>
#include <utility>

namespace tracehost {

namespace jit = torch::jit;

namespace {

constexpr const char *kUnknown = "?";

thread_local std::string failed; ///< the place of the op
thread_local std::exception_ptr thrown;
thread_local bool undoable_now = false; ///< the place of the op is

class Origin final : public jit::SourceRangeUnpickler {
public:
  Origin(std::string place, bool undoable) : place_(std::move(place)), undoable_(undoable) {}
  std::optional<jit::SourceRange> findSourceRangeThatGenerated(const jit::SourceRange &) override {
    if (auto error = std::current_exception(); error) {
      thrown = std::move(error);
      failed = place_;
      undoable_now = undoable_;
    }
    return std::nullopt;
  }

private:
  const std::string place_;
  const bool undoable_;
};

/// Other Sources name their file, are empty, or have a line for each frame.
bool is_ours(const jit::SourceRange &range) {
  const auto &source = range.source();
  return source && !source->filename() && source->num_lines() == 1 && source->size() > 0;
}

/// `net.py:12` of a node of TorchScript source.
std::string place_in_source(const jit::SourceRange &range) {
  const auto line = range.file_line_col();
  if (!line)
    return {};
  const auto &[file, number, column] = *line;
  const auto slash = file.rfind('/');
  return file.substr(slash == std::string::npos ? 0 : slash + 1) + ":" + std::to_string(number);
}

} // namespace

jit::SourceRange place_range(const std::string &place, bool undoable) {
  const std::string text = place.empty() ? kUnknown : place;
  auto source = std::make_shared<jit::Source>(text, std::nullopt, 0,
                                              std::make_shared<Origin>(place, undoable));
  return {std::move(source), 0, text.size()};
}

std::string place_of(const jit::Node &node) {
  const jit::SourceRange range = node.sourceRange();
  std::string place = is_ours(range) ? range.text().str() : place_in_source(range);
  return place == kUnknown ? std::string() : place;
}

void complete_places(jit::Block &block) {
  each_node(&block, [](jit::Node *node) {
    if (const auto range = node->sourceRange();
        node->kind() != c10::prim::Constant && !is_ours(range))
      node->setSourceRange(place_range(place_in_source(range)));
  });
}

bool op_is_undoable() { return thrown && undoable_now; }
std::exception_ptr take_op_error() { return std::exchange(thrown, nullptr); }
std::string take_op_place() { return std::exchange(failed, {}); }

} // namespace tracehost
