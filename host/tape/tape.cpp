#include "tape/tape.h"

#include "signature/grad_read.h"
#include "tape/below.h"
#include "tape/block_runs.h"
#include "tape/generator.h"
#include "tape/output_memory.h"
#include "tape/recording.h"
#include "tape/steps.h"

#include <ATen/EmptyTensor.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <c10/core/CPUAllocator.h>
#include <c10/core/GradMode.h>
#include <c10/util/ScopeExit.h>

#include <algorithm>
#include <cstring>

namespace tracehost::tape {

Tape::~Tape() = default;

[[gnu::always_inline]] inline void Tape::bind(std::size_t index, void *data) {
  Root &root = roots_[index];
  for (const Patch &patch : root.patches)
    patch.iterator->unsafe_replace_operand(patch.operand, static_cast<char *>(data) + patch.offset);
  for (const Pointer &pointer : root.pointers)
    *pointer.place = static_cast<const char *>(data) + pointer.offset;
  if (root.has_tensors)
    root.storage.unsafeGetStorageImpl()->set_data_ptr_noswap(
        at::DataPtr(data, c10::DeviceType::CPU));
}

namespace {

bool has_layout(const at::Tensor &t, const at::Tensor &then, bool moves) {
  return is_plain(t) && t.sizes() == then.sizes() && t.strides() == then.strides() &&
         t.dtype() == then.dtype() && (moves || t.storage_offset() == then.storage_offset());
}

} // namespace

bool Tape::CallStep::run(Tape &tape) {
  for (const std::size_t root : spent)
    tape.called_[root].reset();
  stack.assign(arguments.begin(), arguments.end());
  for (const SlotArgument &argument : slots)
    stack[argument.at] = tape.slots_[argument.slot];
  const auto clear = c10::make_scope_exit([this] { stack.clear(); }); // frees what it has left
  counted.empty() ? operation(stack) : run_counted(tape);
  const std::size_t first = stack.size() - results.size();
  for (std::size_t i = 0; i < results.size(); ++i)
    if (is_given(results[i], stack[first + i]) || (is_outlined && is_seen_copy(i)) ||
        !take(tape, results[i], std::move(stack[first + i]))) [[unlikely]]
      return false;
  return true;
}

/// Runs a block that writes, also where an interruption ends it.
void Tape::CallStep::run_counted(Tape &tape) {
  std::vector<std::int64_t> before;
  for (const Counted &one : counted)
    before.push_back(version_of(one.tensor));
  const auto count = c10::make_scope_exit([&] {
    for (std::size_t i = 0; i < counted.size(); ++i)
      tape.by_blocks_[counted[i].root] += version_of(counted[i].tensor) - before[i];
  });
  operation(stack);
}

/// Whether the block gave what it was given, and somebody can see that this is a copy.
bool Tape::CallStep::is_seen_copy(std::size_t result) const {
  const Copied how = was_copied(result);
  return (ends_if_copied && how != Copied::no) || how == Copied::with_other_strides ||
         (how == Copied::yes && results[result].exposed);
}

/// Whether the result is an argument, which it was not at the recording: dropout(x, 0.).
bool Tape::CallStep::is_given(const Result &kind, const c10::IValue &result) const {
  if (slots.empty() || kind.to != Result::To::root || kind.moves || !result.toTensor().defined())
    return false;
  bool given = false;
  for (const c10::IValue &argument : arguments)
    each_tensor(argument, [&](const at::Tensor &t) {
      given |= t.defined() && t.storage().is_alias_of(result.toTensor().storage());
    });
  return given;
}

bool Tape::CallStep::take(Tape &tape, const Result &result, c10::IValue value) {
  switch (result.to) {
  case Result::To::nothing:
    return true;
  case Result::To::slot:
    tape.slots_[result.index] = std::move(value);
    return true;
  case Result::To::list: {
    const auto items = value.toListRef();
    if (items.size() != result.elements.size())
      return false;
    for (std::size_t i = 0; i < items.size(); ++i)
      if (!take(tape, result.elements[i], items[i]))
        return false;
    return true;
  }
  case Result::To::root:
    break;
  }
  at::Tensor &made = tape.called_[result.index];
  made = std::move(value).toTensor();
  if (!has_layout(made, result.fixed, result.moves))
    return false;
  tape.bind(result.index, result.moves ? const_cast<void *>(made.const_data_ptr())
                                       : const_cast<void *>(made.storage().data()));
  return true;
}

/// A kernel reads a number from the iterator's own memory, in the result's dtype.
void Tape::KernelStep::set_numbers(Tape &tape) {
  for (const SlotArgument &number : numbers) {
    const c10::IValue &value = tape.slots_[number.slot];
    void *const place = iterator.data_ptr(static_cast<int>(number.at));
    const auto set = [&](auto given) {
      if (iterator.common_dtype() == at::kDouble)
        *static_cast<double *>(place) = static_cast<double>(given);
      else
        *static_cast<float *>(place) = static_cast<float>(given);
    };
    value.isInt() ? set(value.toInt()) : set(value.toScalar().toDouble());
  }
  if (alpha_slot)
    alpha = tape.slots_[*alpha_slot].toScalar();
}

bool Tape::ListStep::run(Tape &tape) {
  for (const SlotArgument &item : slots)
    items[item.at] = tape.slots_[item.slot];
  tape.slots_[result] = construct_list(*node, items);
  return true;
}

/// As at::empty_strided(), whose checks and sums are those of the recording. A function of its own:
/// scripts/bench counts it apart.
[[gnu::noinline]] at::Tensor Tape::Fresh::make() {
  c10::Allocator *const allocator = c10::GetCPUAllocator();
  auto storage = c10::make_intrusive<c10::StorageImpl>(
      c10::StorageImpl::use_byte_size_t(), bytes, memory.take(bytes, *allocator), allocator, true);
  at::Tensor made = at::detail::make_tensor<c10::TensorImpl>(
      c10::Storage(std::move(storage)), c10::DispatchKeySet(c10::DispatchKey::CPU),
      c10::scalarTypeToTypeMeta(dtype));
  if (is_contiguous)
    made.unsafeGetTensorImpl()->set_sizes_contiguous(sizes);
  else
    made.unsafeGetTensorImpl()->set_sizes_and_strides(sizes, strides);
  return made;
}

[[gnu::flatten]] void Tape::bind_all(c10::ArrayRef<c10::IValue> given) {
  for (const Written &written : written_)
    given[written.input].toTensor().mutable_data_ptr(); // copies what is copied on write
  for (std::size_t i = 0; i < inputs_.size(); ++i)
    if (inputs_[i].to == Given::To::root)
      bind(inputs_[i].index,
           reinterpret_cast<void *>(address_of(*given[i].toTensor().unsafeGetTensorImpl())));
    else if (inputs_[i].to == Given::To::slot)
      slots_[inputs_[i].index] = given[i];
  for (std::size_t i = 0; i < fresh_.size(); ++i) {
    made_[i] = fresh_[i].make();
    bind(fresh_[i].root, made_[i].storage().unsafeGetStorageImpl()->mutable_data());
  }
}

/// What the graph writes to is restored if the run ends early.
void Tape::save(c10::ArrayRef<c10::IValue> given) {
  for (Written &written : written_)
    if (written.saved.defined() && written.saved.nbytes() > 0)
      std::memcpy(written.saved.data_ptr(), given[written.input].toTensor().const_data_ptr(),
                  written.saved.nbytes());
  if (saves_generator_)
    generator_ = state_of_generator();
}

void Tape::restore(c10::ArrayRef<c10::IValue> given) const {
  for (const Written &written : written_)
    if (written.saved.defined() && written.saved.nbytes() > 0)
      std::memcpy(given[written.input].toTensor().mutable_data_ptr(),
                  written.saved.const_data_ptr(), written.saved.nbytes());
  if (saves_generator_)
    set_state_of_generator(generator_);
}

/// The first step that asks for a signal, and how many steps are between two that do.
constexpr std::size_t kFirstAsking = 63, kBetween = 64;

bool Tape::run_steps(c10::ArrayRef<c10::IValue> given, void (*interruptible)()) {
  std::optional<Below> below;
  if (dispatches_)
    below.emplace();
  std::size_t i = 0;
  std::fill(by_blocks_.begin(), by_blocks_.end(), 0);
  try {
    bind_all(given);
    for (; i < steps_.size(); ++i) {
      if (i % kBetween == kFirstAsking && interruptible)
        interrupt(interruptible);
      if (!steps_[i]->run(*this))
        return false;
    }
    return true;
  } catch (const Interruption &interruption) {
    bump_versions(given);
    std::rethrow_exception(interruption.error);
  } catch (...) { // a check's is no std::exception; the interpreter finds the line of an op's
    if (static_cast<std::ptrdiff_t>(i) >= first_effect_) { // no memory is left, or the like
      bump_versions(given);
      throw;
    }
    return false;
  }
}

void Tape::note_kinds(bool switches_grad) {
  bool calls = false;
  for (const auto &step : steps_) {
    calls |= step->calls();
    dispatches_ |= step->dispatches();
  }
  switches_grad_ = switches_grad;
  dispatches_ |= steps_.size() > kFirstAsking;
  is_quiet_ = !calls && steps_.size() <= kFirstAsking;
  counts_writes_ = !written_.empty() || !versions_.empty() || !by_blocks_.empty() ||
                   std::any_of(fresh_.begin(), fresh_.end(),
                               [](const Fresh &fresh) { return fresh.version > 0; });
}

bool Tape::holds(c10::ArrayRef<c10::IValue> inputs) {
  if (!training_)
    return guards_.hold(inputs);
  if (!training_->leaves.hold(inputs) ||
      (training_->attention && *training_->attention != AttentionChoice::now()))
    return false;
  auto &given = training_->given;
  given.assign(inputs.begin(), inputs.end());
  for (const std::size_t input : training_->flat.reads)
    given.emplace_back(grad_of(inputs[input].toTensor()));
  const bool held = guards_.hold(given);
  given.clear();
  return held;
}

/// Gradients go in behind the inputs, and come out behind the outputs.
bool Tape::run(c10::ArrayRef<c10::IValue> inputs, jit::Stack &outputs, void (*interruptible)()) {
  if (!training_)
    return run_flat(inputs, outputs, interruptible);
  const FlatGraph &flat = training_->flat;
  auto &given = training_->given;
  const auto forget = c10::make_scope_exit([&given] { given.clear(); });
  given.assign(inputs.begin(), inputs.end());
  for (const std::size_t input : flat.reads)
    given.emplace_back(grad_of(inputs[input].toTensor()));
  if (!run_flat(given, outputs, interruptible))
    return false;
  for (std::size_t i = flat.sets.size(); i-- > 0;)
    given[flat.sets[i].input].toTensor().mutable_grad() =
        flat.sets[i].to_none ? at::Tensor() : jit::pop(outputs).toTensor();
  return true;
}

bool Tape::run_flat(c10::ArrayRef<c10::IValue> given, jit::Stack &outputs,
                    void (*interruptible)()) {
  const bool grad = switches_grad_ && c10::GradMode::is_enabled();
  bool has_run = false;
  const auto forget = c10::make_scope_exit([&] {
    for (at::Tensor &result : called_)
      result.reset();
    for (at::Tensor &made : made_)
      made.reset();
    for (at::Tensor &detached : detached_)
      detached.reset();
    if (switches_grad_ && !has_run)
      c10::GradMode::set_enabled(grad);
  });
  if (saves_)
    save(given);
  if (!run_steps(given, interruptible)) {
    if (saves_)
      restore(given);
    return false;
  }
  has_run = true;
  if (!bases_.empty())
    make_bases();
  if (counts_writes_)
    bump_versions(given);
  for (std::size_t i = 0; i < detaches_.size(); ++i)
    detached_[i] = output(detaches_[i], given, {}).toTensor();
  const std::size_t first = outputs.size();
  outputs.reserve(first + outputs_.size());
  for (Output &one : outputs_)
    if (one.takes_made) [[likely]]
      outputs.emplace_back(std::move(made_[one.index]));
    else
      outputs.push_back(output(one, given, c10::ArrayRef<c10::IValue>(outputs).slice(first)));
  return true;
}

/// The graph's writes ran below autograd, which counts them.
void Tape::bump_versions(c10::ArrayRef<c10::IValue> given) const {
  const auto bump = [this](const at::Tensor &t, std::int64_t version, std::size_t root) {
    for (version += by_blocks_.empty() ? 0 : by_blocks_[root]; version > 0; --version)
      t.unsafeGetTensorImpl()->bump_version();
  };
  for (std::size_t i = 0; i < fresh_.size(); ++i)
    bump(made_[i], fresh_[i].version, fresh_[i].root);
  for (const auto &[root, version] : versions_)
    if (called_[root].defined()) // else the run has been interrupted
      bump(called_[root], version, root);
  for (const Written &written : written_)
    bump(given[written.input].toTensor(), written.version, inputs_[written.input].index);
}

/// Below autograd, an op's result is no view of a tensor that the op made.
void Tape::make_bases() {
  const at::AutoDispatchBelowADInplaceOrView below;
  for (auto &[root, operation] : bases_) {
    jit::Stack stack{std::move(called_[root])};
    operation(stack);
    called_[root] = std::move(stack.back()).toTensor();
  }
}

c10::IValue Tape::output(Output &output, c10::ArrayRef<c10::IValue> given,
                         c10::ArrayRef<c10::IValue> before) {
  c10::IValue value;
  switch (output.from) {
  case Output::From::input:
    value = given[output.index];
    break;
  case Output::From::fresh:
    value = made_[output.index];
    break;
  case Output::From::called:
    value = called_[output.index];
    break;
  case Output::From::constant:
    value = output.value;
    break;
  case Output::From::slot:
    value = slots_[output.index];
    break;
  case Output::From::detached:
    value = detached_[output.index];
    break;
  case Output::From::earlier:
    return before[output.index];
  }
  for (View &view : output.views) {
    jit::Stack stack(view.arguments);
    stack[0] = std::move(value);
    view.operation(stack);
    value = std::move(stack.back());
    if (value.isTensorList())
      value = value.toListRef()[view.element];
  }
  return value;
}

} // namespace tracehost::tape
