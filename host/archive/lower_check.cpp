#include "archive/error.h"
#include "archive/lower.h"
#include "program/autograd_ops.h"
#include "program/callback.h"
#include "program/places.h"
#include "shapes/op_names.h"

#include <ATen/core/dispatch/Dispatcher.h>

#include <fmt/format.h>

namespace tracehost::archive {

namespace jit = torch::jit;

namespace {

/// Ops made of others, none of which autocast casts.
const auto kNothingToCast =
    op_names("aten::reshape aten::to aten::flatten aten::chunk aten::split aten::dropout "
             "aten::dropout_ aten::contiguous aten::type_as aten::expand_as aten::view_as "
             "aten::unflatten aten::movedim aten::swapaxes aten::ravel aten::size aten::relu6 "
             "aten::T aten::matrix_H aten::numpy_T aten::mT aten::mH aten::adjoint aten::square "
             "aten::tensor_split aten::hsplit aten::vsplit aten::reshape_as aten::meshgrid "
             "aten::broadcast_tensors aten::clip aten::data aten::requires_grad_ aten::set_data "
             "aten::is_floating_point aten::item aten::squeeze_ aten::one_hot aten::stack "
             "aten::arange");

/// Whether the op is made of others, which autocast would cast.
bool casts_inside(const jit::Node &node) {
  const jit::Operator *op = node.maybeOperator();
  if (!op || !node.kind().is_aten() || kNothingToCast.contains(node.kind().toQualString()))
    return false;
  const auto handle = c10::Dispatcher::singleton().findOp(op->schema().operator_name());
  return handle && handle->hasKernelForDispatchKey(c10::DispatchKey::CompositeImplicitAutograd) &&
         !(handle->hasKernelForDispatchKey(c10::DispatchKey::AutocastCPU) &&
           handle->hasKernelForDispatchKey(c10::DispatchKey::AutocastCUDA));
}

} // namespace

void reject(const std::string &what, const jit::Node &node, std::string_view name,
            std::string_view reason) {
  const std::string place = place_of(node);
  throw Error(fmt::format("{} can't be saved: {}{} {}", what, name,
                          place.empty() ? std::string() : " at " + place, reason));
}

bool is_autocast(const jit::Node &node) {
  const std::string_view name = node.kind().toQualString();
  return name == "tracehost::set_autocast" || name == "tracehost::set_autocast_regions";
}

void check(jit::Graph &graph, bool autocast, const std::string &what) {
  each_node(graph.block(), [&](jit::Node *node) { autocast |= is_autocast(*node); });
  each_node(graph.block(), [&](jit::Node *node) {
    const std::string name = node->kind().toQualString();
    if (is_call(*node))
      reject(what, *node, fmt::format("py_function '{}'", callback_of(*node)->name),
             "calls Python, which a program without it can't. Leave it out, or compute it with "
             "PyTorch's ops");
    if (is_autograd_op(*node))
      reject(what, *node, runs_engine(*node) ? "a backward pass" : "a read or write of .grad",
             "needs autograd's engine, which no op of TorchScript runs. Save the forward function");
    if (name == "tracehost::set_inference_mode")
      reject(what, *node, "inference_mode()",
             "is switched by no op of TorchScript. Use torch.no_grad() in the body, or enter it "
             "around the call");
    if (name == "tracehost::save_generator")
      reject(what, *node, "a number that the graph was made for",
             "comes after a draw from a generator of the body's, which a program without Python "
             "could not restore. Draw from the default generator, or after the number is read");
    if (autocast && casts_inside(*node))
      reject(what, *node, name,
             "casts inside, by the autocast that it runs under, which no op of TorchScript sets. "
             "End the autocast region before it, or give it inputs of the lower precision");
    if (node->kind() == c10::prim::PythonOp)
      reject(what, *node, "a Python op", "runs Python");
  });
}

} // namespace tracehost::archive
