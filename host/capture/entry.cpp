#include "capture/entry.h"

#include "capture/eligible.h"
#include "capture/writes.h"
#include "signature/grad_read.h"

#include <ATen/core/grad_mode.h>
#include <c10/util/Exception.h>
#include <c10/util/StringUtil.h>

#include <unistd.h>

#include <algorithm>
#include <utility>

namespace tracehost::capture {
namespace {

constexpr int kWarmRuns = 2, kWarmRunsOfTraining = 3;
constexpr std::uint64_t kCallsOfMoves = 20; ///< in which there may be three captures again

/// One capture at a time in the process.
constinit std::atomic_flag captures_now;

class OnlyCapture {
public:
  OnlyCapture() : mine_(!captures_now.test_and_set(std::memory_order_acquire)) {}
  ~OnlyCapture() {
    if (mine_)
      captures_now.clear(std::memory_order_release);
  }
  OnlyCapture(const OnlyCapture &) = delete;
  OnlyCapture &operator=(const OnlyCapture &) = delete;
  explicit operator bool() const { return mine_; }

private:
  const bool mine_;
};

/// Another stream is this thread's current one.
class OnStream {
public:
  OnStream(GraphDevice &device, c10::Stream stream, c10::Stream before)
      : device_(device), before_(before) {
    device_.set_current(stream);
  }
  ~OnStream() { device_.set_current(before_); }
  OnStream(const OnStream &) = delete;
  OnStream &operator=(const OnStream &) = delete;

private:
  GraphDevice &device_;
  const c10::Stream before_;
};

std::string first_line(const std::exception &error) {
  const auto *c10_error = dynamic_cast<const c10::Error *>(&error);
  const std::string text = c10_error ? c10_error->what_without_backtrace() : error.what();
  return text.substr(0, text.find('\n'));
}

bool needs_gradients(const c10::IValue &value) {
  return value.isTensor() && value.toTensor().requires_grad() && !value.toTensor().is_leaf();
}

} // namespace

Entry::Entry(const Subject &subject, GraphDevice &device, Values inputs, std::size_t launches)
    : subject_(subject), device_(device), key_(inputs), where_(device_of_inputs(inputs)),
      index_(where_.index()), has_gradients_(tape::needs_flat_graph(subject.graph, inputs)),
      launches_(launches), inputs_(inputs.size(), subject.arguments, subject.written),
      home_(device.current(index_)), last_(home_) {}

Entry::~Entry() { release(); }

bool Entry::run(jit::Stack &stack) {
  ++calls_;
  const auto inputs = jit::last(stack, subject_.graph.inputs().size());
  if (state_ == State::not_captured || (has_gradients_ && !tape::records_plainly()))
    return false;
  if (state_ == State::warming) {
    warm(stack);
    return true;
  }
  if (has_gradients_ && !step_ && !make_step(inputs))
    return false;
  if (!step_)
    return serve(stack, inputs);
  return step_->holds(inputs) && serve(stack, step_->with_gradients(inputs));
}

/// `given`: the inputs on the stack, and gradients.
bool Entry::serve(jit::Stack &stack, Values given) {
  if (!inputs_.are_apart(given))
    return false;
  if (state_ == State::ready && is_stale(given))
    state_ = State::capturing;
  switch (state_) {
  case State::capturing:
    if (warmed_by_ != std::this_thread::get_id()) {
      warm(stack);
      return true;
    }
    return capture(stack, given);
  case State::ready:
    return replay(stack, given);
  case State::warming:
  case State::not_captured:
    break;
  }
  return false;
}

bool Entry::make_step(Values inputs) {
  try {
    step_ = std::make_unique<TrainingStep>(subject_.graph, inputs, subject_.draws);
  } catch (const tape::NoTape &none) {
    reject(none.why);
    return false;
  } catch (const std::exception &error) {
    reject(first_line(error));
    return false;
  }
  if (const auto reason = not_capturable(step_->graph(), step_->with_gradients(inputs), where_)) {
    reject(reason->what);
    return false;
  }
  launches_ = count_launches(*step_->graph().block());
  for (const std::int64_t writes : step_->writes_to_gradients())
    inputs_.add(writes);
  const std::vector<bool> written = written_inputs(step_->graph());
  for (std::size_t i = 0; i < written.size(); ++i)
    if (written[i])
      inputs_.set_written(i);
  return true;
}

/// The call itself, on the stream of the capture: libraries make handles and workspaces for each
/// stream and thread.
void Entry::warm(jit::Stack &stack) {
  const std::vector<c10::IValue> given = jit::last(stack, subject_.graph.inputs().size()).vec();
  inputs_.begin_warm_run(given);
  const bool grad = at::GradMode::is_enabled();
  // Results that need gradients would have their backward on that stream as well.
  if (has_gradients_ && warm_runs_ == 0)
    subject_.interpret(stack, /*captured=*/false);
  else
    run_aside(stack, given);
  inputs_.end_warm_run(given);
  warmed_by_ = std::this_thread::get_id();
  const auto outputs = jit::last(stack, subject_.graph.outputs().size());
  if (at::GradMode::is_enabled() != grad)
    reject("it leaves another grad mode");
  else if (std::any_of(outputs.begin(), outputs.end(), &needs_gradients))
    reject("its results need gradients");
  else if (++warm_runs_ == (has_gradients_ ? kWarmRunsOfTraining : kWarmRuns))
    state_ = State::capturing;
}

void Entry::run_aside(jit::Stack &stack, Values given) {
  const c10::Stream caller = device_.current(index_), side = device_.side_stream(index_);
  struct Joined {
    GraphDevice &device;
    const c10::Stream caller, side;
    ~Joined() { device.wait(caller, side); }
  };
  device_.wait(side, caller);
  {
    const Joined joined{device_, caller, side};
    const OnStream there(device_, side, caller);
    subject_.interpret(stack, /*captured=*/false);
  }
  const auto use = [&](const at::Tensor &t) {
    if (t.defined())
      device_.used_on(t, caller);
  };
  for (const c10::IValue &output : jit::last(stack, subject_.graph.outputs().size()))
    if (output.isTensor())
      use(output.toTensor());
  for (const c10::IValue &input : given)
    if (has_gradients_ && input.isTensor())
      use(grad_of(input.toTensor()));
}

bool Entry::is_stale(Values given) {
  if (inputs_.are_in_place(given)) [[likely]]
    return false;
  std::uint64_t &oldest = moved_at_[moves_ % moved_at_.size()];
  if (moves_ >= moved_at_.size() && calls_ - oldest < kCallsOfMoves) {
    reject("its parameters move");
    return false;
  }
  oldest = calls_;
  ++moves_;
  inputs_.copy_what_moved(given);
  return true;
}

/// The interpreter throws an error of its own in the place of an op's.
std::string Entry::failure(const std::exception &error) const {
  const Failure of_op = subject_.take_failure ? subject_.take_failure() : Failure{};
  if (!of_op.error)
    return first_line(error);
  try {
    std::rethrow_exception(of_op.error);
  } catch (const std::exception &thrown) {
    return first_line(thrown) + (of_op.place.empty() ? "" : " at " + of_op.place);
  } catch (...) {
    return first_line(error);
  }
}

/// Captures the graph. It runs, but the device executes nothing.
bool Entry::record(c10::Stream caller) {
  bool begun = false;
  try {
    const c10::Stream side = device_.side_stream(index_);
    pool_ = device_.new_pool();
    has_pool_ = true;
    device_.wait(side, caller);
    jit::Stack stack = inputs_.stack();
    {
      const OnStream there(device_, side, caller);
      begun = true;
      device_.begin(side, pool_);
      if (step_)
        step_->run(stack);
      else
        subject_.interpret(stack, /*captured=*/true);
      captured_ = device_.end();
      begun = false;
    }
    const jit::Graph &graph = step_ ? step_->graph() : subject_.graph;
    if (const auto why_not =
            results_.bind(stack, inputs_, Results::storages_of_constants(*graph.block()))) {
      reject(*why_not);
      return false;
    }
    return true;
  } catch (const std::exception &error) {
    const std::string why = failure(error);
    if (begun)
      device_.abandon();
    reject("its capture failed: " + why);
    return false;
  } catch (...) {
    if (begun)
      device_.abandon();
    throw;
  }
}

/// Captures in the place of a call. The call's results are those of a plain run, which the first
/// replay is compared with.
bool Entry::capture(jit::Stack &stack, Values given) {
  const OnlyCapture only;
  if (!only)
    return false;
  release();
  home_ = last_ = device_.current(index_);
  std::optional<Effects> before;
  try {
    inputs_.bind(given);
    inputs_.copy_in(given); // a device that runs what it captures sees values of a call
    before.emplace(inputs_, given, subject_.draws);
  } catch (const std::exception &error) {
    reject(first_line(error));
    return false;
  }
  return record(home_) && compare(stack, given, *before);
}

bool Entry::compare(jit::Stack &stack, Values now, const Effects &before) {
  const std::vector<c10::IValue> given = now.vec(); // the run consumes the stack
  jit::Stack replayed;
  std::optional<Effects> after;
  try {
    replay_for(given, replayed);
    after.emplace(before.again(inputs_, given));
  } catch (const std::exception &error) {
    reject("its first replay failed: " + first_line(error));
  }
  before.undo(given);
  if (!after)
    return false;
  try {
    subject_.interpret(stack, /*captured=*/false);
  } catch (...) {
    reject("an op raised in the call that was compared");
    throw;
  }
  jit::Stack plain = jit::last(stack, subject_.graph.outputs().size()).vec();
  if (step_)
    step_->append_gradients(given, plain);
  auto differs = difference_of_results(replayed, plain);
  if (!differs)
    differs = after->difference(before.again(inputs_, given));
  if (differs)
    reject("the first replay of its capture differs in " + *differs);
  else
    state_ = State::ready;
  return true;
}

void Entry::replay_for(Values given, jit::Stack &results) {
  const auto memory = results_.allocate();
  const c10::Stream caller = device_.current(index_);
  if (caller != last_)
    device_.wait(caller, last_);
  inputs_.copy_in(given);
  device_.replay(*captured_, caller);
  last_ = caller;
  inputs_.copy_back(given);
  results_.append(results, memory, given);
}

bool Entry::replay(jit::Stack &stack, Values given) {
  jit::Stack results;
  try {
    replay_for(given, results);
  } catch (const std::exception &error) { // nothing has been executed
    reject("a replay failed: " + first_line(error));
    return false;
  }
  inputs_.count_writes(given);
  if (step_)
    step_->set_gradients(given, results);
  jit::drop(stack, subject_.graph.inputs().size());
  stack.insert(stack.end(), std::make_move_iterator(results.begin()),
               std::make_move_iterator(results.end()));
  return true;
}

void Entry::reject(std::string why) {
  state_ = State::not_captured;
  why_not_ = std::move(why);
  release();
}

/// Memory is used again by the stream that it was allocated on: after the last replay.
void Entry::release() noexcept {
  if (process_ != getpid()) { // a child of fork() can't use its parent's device
    static_cast<void>(captured_.release());
    return;
  }
  try {
    if (last_ != home_ && captured_)
      device_.wait(home_, last_);
  } catch (const std::exception &) { // the device has failed: nothing runs on it any more
  }
  results_.unbind();
  captured_.reset();
  inputs_.unbind();
  if (std::exchange(has_pool_, false))
    device_.drop(pool_);
}

} // namespace tracehost::capture
