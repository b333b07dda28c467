#include "program/undo.h"

#include "program/checks.h"
#include "signature/grad_read.h"

#include <ATen/Context.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/ops/clone.h>
#include <torch/csrc/jit/runtime/custom_operator.h>

#include <mutex>
#include <string_view>

namespace tracehost {

namespace jit = torch::jit;

constinit thread_local Undo *Undo::current = nullptr;

void Undo::save_generator(const at::Generator &generator) {
  if (!saved_.insert(generator.unsafeGetGeneratorImpl()).second)
    return;
  at::Generator of = generator;
  const std::lock_guard lock(of.mutex());
  generators_.emplace_back(generator, of.clone());
}

void Undo::save_grad(const at::Tensor &leaf, bool values) {
  const at::Tensor &grad = grad_of(leaf);
  if (values && grad.defined())
    save_data(grad);
  if (saved_.insert(leaf.unsafeGetTensorImpl()).second)
    grads_.emplace_back(leaf, grad);
}

void Undo::save_data(const at::Tensor &t) {
  for (const Data &data : data_)
    if (data.tensor.is_same(t))
      return;
  const at::AutoDispatchBelowADInplaceOrView no_history;
  data_.push_back({t, t.clone(), t.is_inference() ? -1 : t._version()});
}

void Undo::forget() {
  forgot_ = true;
  generators_.clear();
  grads_.clear();
  data_.clear();
  saved_.clear();
}

void Undo::restore() {
  for (auto &[generator, saved] : generators_) {
    const std::lock_guard lock(generator.mutex());
    generator.set_state(saved.get_state());
  }
  for (auto &[leaf, grad] : grads_)
    leaf.mutable_grad() = grad;
  // The newest first: two of them may be views of one memory.
  for (auto data = data_.rbegin(); data != data_.rend(); ++data) {
    const at::AutoDispatchBelowADInplaceOrView no_history; // and no new version
    data->tensor.copy_(data->values);
    if (data->version < 0)
      continue;
    c10::VariableVersion counter = data->tensor.unsafeGetTensorImpl()->version_counter();
    counter.set_version(data->version);
  }
  forget();
}

namespace {

void save_generator(jit::Stack &stack) {
  const at::Generator generator = jit::pop(stack).toGenerator();
  if (Undo::current)
    Undo::current->save_generator(generator);
}

void save_default_generator(jit::Stack &stack) {
  const c10::Device device = jit::pop(stack).toDevice();
  if (Undo::current)
    Undo::current->save_generator(at::globalContext().defaultGenerator(device));
}

void save_grad(jit::Stack &stack) {
  const bool values = jit::pop(stack).toBool();
  const c10::IValue leaves = jit::pop(stack);
  if (Undo::current)
    for (const c10::IValue &leaf : leaves.toListRef())
      Undo::current->save_grad(leaf.toTensor(), values);
}

void save_data(jit::Stack &stack) {
  const at::Tensor t = jit::pop(stack).toTensor();
  if (Undo::current)
    Undo::current->save_data(t);
}

void forget_saved(jit::Stack &) {
  if (Undo::current)
    Undo::current->forget();
}

const jit::RegisterOperators
    registered_undo({jit::Operator("tracehost::save_generator(Generator g) -> ()", &save_generator,
                                   c10::AliasAnalysisKind::CONSERVATIVE),
                     jit::Operator("tracehost::save_default_generator(Device d) -> ()",
                                   &save_default_generator, c10::AliasAnalysisKind::CONSERVATIVE),
                     jit::Operator("tracehost::save_grad(Tensor[] leaves, bool values) -> ()",
                                   &save_grad, c10::AliasAnalysisKind::CONSERVATIVE),
                     jit::Operator("tracehost::save_data(Tensor t) -> ()", &save_data,
                                   c10::AliasAnalysisKind::CONSERVATIVE),
                     jit::Operator("tracehost::forget_saved() -> ()", &forget_saved,
                                   c10::AliasAnalysisKind::CONSERVATIVE)});

} // namespace

bool is_check_or_save(std::string_view op) {
  return is_check(op) || op == "tracehost::save_data" ||
         op == "tracehost::save_default_generator" || op == "tracehost::forget_saved";
}

bool saves(const jit::Node &node) {
  return std::string_view(node.kind().toQualString()).starts_with("tracehost::save_");
}

} // namespace tracehost
