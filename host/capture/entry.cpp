#include "capture/entry.h"

#include "capture/side_stream.h"
#include "signature/grad_read.h"

#include <ATen/core/grad_mode.h>

#include <unistd.h>

#include <algorithm>
#include <utility>

/// Which calls of an entry run plainly, are captured or replayed. captured_calls.cpp: the latter.

namespace tracehost::capture {
namespace {

constexpr int kWarmRuns = 2, kWarmRunsOfTraining = 3;
constexpr std::uint64_t kCallsOfMoves = 20; ///< in which what moves is captured three times again

bool needs_gradients(const c10::IValue &value) {
  return value.isTensor() && value.toTensor().requires_grad() && !value.toTensor().is_leaf();
}

} // namespace

Entry::Entry(const Subject &subject, GraphDevice &device, Values inputs, std::size_t launches)
    : subject_(subject), device_(device), key_(inputs), where_(device_of_inputs(inputs)),
      index_(where_.index()), has_gradients_(tape::needs_flat_graph(subject.graph, inputs)),
      launches_(launches), inputs_(inputs.size(), subject.arguments, subject.written),
      home_(device.current(index_)), last_(home_) {}

Entry::~Entry() {
  release("nothing uses it any more");
  subject_.report(news_);
}

void Subject::report(const std::vector<GraphNews> &news) const noexcept {
  try {
    if (listener)
      for (const GraphNews &one : news)
        listener(one);
  } catch (const std::exception &) { // too little memory for a report
  }
}

bool Entry::run(jit::Stack &stack) {
  ++calls_;
  const auto inputs = jit::last(stack, subject_.graph.inputs().size());
  if (state_ == State::not_captured || (has_gradients_ && !tape::records_plainly()))
    return false;
  if (state_ == State::warming)
    return warm(stack);
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
    if (!is_warm())
      return warm(stack);
    return capture(stack, given);
  case State::ready:
    return replay(stack, given);
  case State::warming:
  case State::not_captured:
    break;
  }
  return false;
}

bool Entry::is_warm() const {
  return std::find(warmed_by_.begin(), warmed_by_.end(), std::this_thread::get_id()) !=
         warmed_by_.end();
}

/// The call itself, on the stream of the capture: libraries make handles and workspaces for each
/// stream and thread.
bool Entry::warm(jit::Stack &stack) {
  const SideStreamUse use;
  if (!use)
    return false;
  const std::vector<c10::IValue> given = jit::last(stack, subject_.graph.inputs().size()).vec();
  inputs_.begin_warm_run(given);
  const bool grad = at::GradMode::is_enabled();
  // Results that need gradients would have their backward on that stream as well.
  if (has_gradients_ && warm_runs_ == 0)
    subject_.interpret(stack, /*captured=*/false);
  else
    run_aside(stack, given);
  inputs_.end_warm_run(given);
  if (!is_warm())
    warmed_by_.push_back(std::this_thread::get_id());
  const auto outputs = jit::last(stack, subject_.graph.outputs().size());
  if (at::GradMode::is_enabled() != grad)
    reject("it leaves another grad mode");
  else if (std::any_of(outputs.begin(), outputs.end(), &needs_gradients))
    reject("its results need gradients");
  else if (++warm_runs_ == (has_gradients_ ? kWarmRunsOfTraining : kWarmRuns))
    state_ = State::capturing;
  return true;
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
    const Unbreaking allocates(device_); // that stream has little memory yet
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
  const bool often = moves_ >= moved_at_.size() && calls_ - oldest < kCallsOfMoves;
  oldest = calls_;
  ++moves_;
  inputs_.copy_what_moved(given, /*all=*/often);
  return true;
}

void Entry::reject(std::string why) {
  state_ = State::not_captured;
  release(why);
  warmed_by_.clear();
  news_.push_back({GraphNews::What::rejected, why, launches_, 0});
  why_not_ = std::move(why);
}

/// Memory is used again by the stream that it was allocated on: after the last replay.
void Entry::release(const std::string &why) noexcept {
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
  std::int64_t freed = inputs_.bytes();
  inputs_.unbind();
  if (captured_)
    freed += pool_->free(std::move(captured_));
  pool_.reset();
  if (std::exchange(counted_, false))
    news_.push_back({GraphNews::What::dropped, why, launches_, -freed});
}

} // namespace tracehost::capture
