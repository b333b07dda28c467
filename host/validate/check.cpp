#include "validate/check.h"

#include "capture/plugin.h"
#include "program/checks.h"
#include "program/places.h"
#include "signature/grad_read.h"
#include "signature/signature.h"
#include "tape/quiet.h"
#include "validate/compare.h"
#include "validate/culprit.h"

#include <ATen/core/grad_mode.h>
#include <c10/util/Exception.h>

#include <fmt/format.h>

#include <algorithm>
#include <exception>
#include <optional>

namespace tracehost::validate {
namespace {

namespace jit = torch::jit;

const c10::StorageImpl *memory_of(const at::Tensor &t) {
  return t.defined() && t.has_storage() ? t.storage().unsafeGetStorageImpl() : nullptr;
}

std::string failure() {
  try {
    throw;
  } catch (const c10::Error &e) {
    return e.what_without_backtrace();
  } catch (const std::exception &e) {
    return e.what();
  }
}

Verdict skipped(std::string why) { return {Verdict::Kind::skipped, std::move(why), {}}; }

/// One run of the graph, and what it left.
struct Run {
  std::vector<at::Tensor> inputs;
  std::vector<const c10::StorageImpl *> memories; ///< of the inputs, before
  std::vector<at::Tensor> outputs;
  Draws::States draws;
};

class Check {
public:
  Check(Originals &originals, const BodyRun &body)
      : originals_(originals), body_(body), after_body_(originals.draws().now()),
        graph_(body.program.graph()), gradients_(uses_gradients(*graph_.block())) {
    path_.nodes = body.outputs.nodes;
    path_.parameters = std::make_shared<Parameters>(Parameters{{"output"}, {}, {}});
  }

  ~Check() { originals_.draws().set(after_body_); }
  Check(const Check &) = delete;
  Check &operator=(const Check &) = delete;

  Verdict verdict() {
    std::vector<std::int64_t> versions;
    for (std::size_t i = 0; i < originals_.size(); ++i)
      versions.push_back(version(i));
    Run run;
    try {
      run = this->run();
    } catch (const c10::OutOfMemoryError &) {
      return skipped("not enough memory");
    } catch (const CheckFailed &) {
      throw; // the graph is for another value: whether that is wrong, the caller knows
    } catch (...) {
      const std::string where = Program::take_failed_at();
      if (body_.is_exit())
        throw;
      if (originals_.lacks_history())
        return skipped("an input that it writes has a history of gradients");
      return wrong("the graph raises what the body does not: " + failure(),
                   where.empty() ? where : "the op at " + where);
    }
    for (std::size_t i = 0; i < originals_.size(); ++i)
      if (version(i) != versions[i])
        return wrong(fmt::format("the graph writes into '{}', the body does not", name(i)),
                     last_writer(graph_.inputs()[i]));
    if (auto found = of_outputs(run))
      return settle(std::move(*found), run);
    if (auto found = of_inputs(run))
      return settle(std::move(*found), run);
    if (auto found = of_gradients(run))
      return settle(std::move(*found), run);
    if (!Draws::equal(run.draws, after_body_))
      return disturbed() ? another_thread()
                         : wrong("the random generator is elsewhere after the graph than after "
                                 "the body",
                                 {});
    return {};
  }

private:
  Run run() {
    const at::AutoGradMode grad(at::GradMode::is_enabled()); // the graph may leave another
    Run made;
    made.inputs = originals_.inputs(gradients_);
    for (const at::Tensor &t : made.inputs)
      made.memories.push_back(memory_of(t));
    originals_.draws().rewind();
    jit::Stack stack(made.inputs.begin(), made.inputs.end());
    body_.around([&] {
      const tape::Quiet quiet; // the body has warned
      body_.program.run(stack);
    });
    made.draws = originals_.draws().now();
    for (c10::IValue &output : stack)
      made.outputs.push_back(std::move(output).toTensor());
    return made;
  }

  std::optional<Verdict> of_outputs(const Run &run) {
    for (std::size_t i = 0; i < std::min(run.outputs.size(), body_.results.size()); ++i) {
      const at::Tensor &graph = run.outputs[i], &body = body_.results[i];
      std::string what = compared(graph, body, difference_of_memory(run, i));
      if (!what.empty())
        return wrong(output_name(i) + ", " + what, maker(graph_.outputs()[i]));
    }
    return std::nullopt;
  }

  std::optional<Verdict> of_inputs(const Run &run) {
    for (std::size_t i = 0; i < run.inputs.size(); ++i) {
      if (!originals_.is_written(i) || originals_.is_written_aside(i))
        continue;
      const std::string what = compared(run.inputs[i], originals_.tensor(i));
      if (!what.empty())
        return wrong(fmt::format("what is left in '{}', {}", name(i), what),
                     last_writer(graph_.inputs()[i]));
    }
    return std::nullopt;
  }

  /// What differs first; `other`: than kind and values. Notes whether values alone differ.
  std::string compared(const at::Tensor &graph, const at::Tensor &body, std::string other = {}) {
    std::string what = difference_of_kind(graph, body);
    if (what.empty())
      what = std::move(other);
    values_ = what.empty();
    return values_ ? difference(graph, body) : what;
  }

  /// The verdict on the `.grad`s of inputs and results after the run.
  std::optional<Verdict> of_gradients(const Run &run) {
    if (!gradients_)
      return std::nullopt;
    for (std::size_t i = 0; i < run.inputs.size(); ++i)
      if (auto found = of_gradient(run.inputs[i], originals_.tensor(i), name(i)))
        return found;
    for (std::size_t i = 0; i < std::min(run.outputs.size(), body_.results.size()); ++i)
      if (auto found = of_gradient(run.outputs[i], body_.results[i], output_name(i)))
        return found;
    return std::nullopt;
  }

  std::optional<Verdict> of_gradient(const at::Tensor &in_graph, const at::Tensor &in_body,
                                     const std::string &name) {
    const at::Tensor &graph = grad_of(in_graph), &body = grad_of(in_body);
    if (graph.is_same(body)) // undefined, too
      return std::nullopt;
    const char *const names[] = {"None", "a tensor"};
    values_ = false;
    const std::string what = graph.defined() == body.defined()
                                 ? compared(graph, body)
                                 : fmt::format("it is {} in the graph, and {} in the body",
                                               names[graph.defined()], names[body.defined()]);
    if (what.empty())
      return std::nullopt;
    return wrong(fmt::format("what is left in '{}', {}", grad_path(name), what),
                 last_backward(graph_));
  }

  /// `shares memory with 'x' (offset 3)`
  std::string memory(const Run &run, std::size_t output, bool graph) const {
    const at::Tensor &t = graph ? run.outputs[output] : body_.results[output];
    const c10::StorageImpl *own = memory_of(t);
    if (!own)
      return {};
    const auto at = fmt::format("(offset {})", t.storage_offset());
    for (std::size_t i = 0; i < run.inputs.size(); ++i)
      if ((graph ? run.memories[i] : originals_.storage(i)) == own)
        return fmt::format("shares memory with '{}' {}", name(i), at);
    for (std::size_t i = 0; i < output; ++i)
      if (memory_of(graph ? run.outputs[i] : body_.results[i]) == own)
        return fmt::format("shares memory with {} {}", output_name(i), at);
    return "has memory of its own " + at;
  }

  std::string difference_of_memory(const Run &run, std::size_t output) const {
    // The converse is not compared: after a staged block the trace continues with new tensors,
    // which stand for an input.
    for (std::size_t i = 0; i < run.inputs.size(); ++i)
      if (body_.results[output].is_same(originals_.tensor(i)) &&
          !run.outputs[output].is_same(run.inputs[i]))
        return fmt::format("it is not '{}' itself in the graph, as it is in the body", name(i));
    const std::string graph = memory(run, output, true), body = memory(run, output, false);
    return graph == body ? std::string()
                         : fmt::format("it {} in the graph, and {} in the body", graph, body);
  }

  /// A difference of values may have other causes than a wrong graph.
  Verdict settle(Verdict found, const Run &first) {
    if (!values_)
      return found;
    if (!Draws::equal(first.draws, after_body_) && disturbed())
      return another_thread();
    if (const jit::Node *node = uninitialised(*graph_.block()))
      return skipped(fmt::format("values come from memory that is not initialised ({} at {})",
                                 node->kind().toQualString(), place_of(*node)));
    const jit::Node *node = is_on_device(first) ? differs_each_time(*graph_.block()) : nullptr;
    if (node && is_near(first))
      return skipped(fmt::format("an op gives other values each time on a device ({} at {})",
                                 node->kind().toQualString(), place_of(*node)));
    try {
      const Run second = run();
      for (std::size_t i = 0; i < first.outputs.size(); ++i)
        if (!same_values(first.outputs[i], second.outputs[i]))
          return not_the_same_twice();
      for (std::size_t i = 0; gradients_ && i < first.inputs.size(); ++i) {
        const at::Tensor &a = grad_of(first.inputs[i]), &b = grad_of(second.inputs[i]);
        if (a.defined() && b.defined() && difference_of_kind(a, b).empty() && !same_values(a, b))
          return not_the_same_twice();
      }
    } catch (const std::exception &) { // the difference of the first run is enough
      if (body_.is_exit())
        throw;
    }
    return found;
  }

  bool is_near(const Run &run) const {
    bool near = true;
    const auto compare = [&near](const at::Tensor &graph, const at::Tensor &body) {
      near &= difference_of_kind(graph, body).empty() && nearly_same(graph, body);
    };
    for (std::size_t i = 0; i < std::min(run.outputs.size(), body_.results.size()); ++i)
      compare(run.outputs[i], body_.results[i]);
    for (std::size_t i = 0; i < run.inputs.size(); ++i) {
      if (originals_.is_written(i) && !originals_.is_written_aside(i))
        compare(run.inputs[i], originals_.tensor(i));
      if (gradients_)
        compare(grad_of(run.inputs[i]), grad_of(originals_.tensor(i)));
    }
    return near;
  }

  static bool is_on_device(const Run &run) {
    const auto any = [](const std::vector<at::Tensor> &tensors) {
      return std::ranges::any_of(
          tensors, [](const at::Tensor &t) { return t.defined() && !t.is_cpu() && !t.is_meta(); });
    };
    return any(run.inputs) || any(run.outputs);
  }

  /// Whether another thread may have drawn random numbers while the body or the graph ran.
  bool disturbed() const { return !body_.alone; }
  static Verdict another_thread() {
    return skipped("another thread may have drawn random numbers meanwhile");
  }

  static Verdict not_the_same_twice() {
    return skipped("its ops do not give the same values twice");
  }

  static Verdict wrong(std::string what, std::string culprit) {
    return {Verdict::Kind::wrong, std::move(what), std::move(culprit)};
  }

  std::int64_t version(std::size_t input) const {
    const at::Tensor &t = originals_.tensor(input);
    return t.is_inference() || originals_.is_written(input) ? 0 : t._version();
  }
  std::string name(std::size_t input) const { return body_.input_name(input); }
  std::string output_name(std::size_t output) const {
    for (std::size_t i = 0; i < path_.nodes.size(); ++i)
      if (path_.nodes[i].kind == Kind::tensor && path_.nodes[i].payload.slot == output)
        return path(path_, i);
    return output < body_.outputs.tensors ? fmt::format("output {}", output)
                                          : std::string("what the body stores");
  }

  Originals &originals_;
  const BodyRun &body_;
  const Draws::States after_body_; ///< of the generators
  const jit::Graph &graph_;
  const bool gradients_; ///< the graph reads or changes `.grad`s
  Signature path_;       ///< the result, as the one argument `output`
  bool values_ = false;  ///< the difference found last is one of values alone
};

bool any_on_cuda(const Originals &originals) {
  for (std::size_t i = 0; i < originals.size(); ++i)
    if (originals.tensor(i).is_cuda())
      return true;
  return false;
}

} // namespace

Verdict check(Originals &originals, const BodyRun &body) {
  if (const std::string op = unrepeatable(*body.program.graph().block()); !op.empty())
    return skipped(fmt::format("the graph calls what can't be repeated ({})", op));
  if (!originals.problem().empty())
    return skipped(originals.problem());
  if (body.program.runs_engine())
    if (std::string why = originals.problem_of_backward(body.input_name); !why.empty())
      return skipped(std::move(why));
  const capture::QuietWaits quiet(any_on_cuda(originals));
  try {
    return Check(originals, body).verdict();
  } catch (const c10::OutOfMemoryError &) { // in a comparison
    return skipped("not enough memory");
  }
}

} // namespace tracehost::validate
