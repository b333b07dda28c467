#include "trace/shape_rules.h"

#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>

namespace tracehost::trace {
namespace {

/// (input, hx, params, has_biases, num_layers, dropout, train, bidirectional, batch_first)
constexpr std::size_t kRecurrentArguments = 9;

std::vector<c10::IValue> recurrent(const std::vector<c10::IValue> &arguments, bool has_cell) {
  const at::Tensor input = arguments[0].toTensor();
  std::vector<at::Tensor> states;
  if (has_cell)
    states = arguments[1].toTensorVector();
  else
    states = {arguments[1].toTensor()};
  const auto parameters = arguments[2].toTensorVector();
  const bool both_ways = arguments[7].toBool(), batch_first = arguments[8].toBool();
  const std::int64_t time = batch_first ? 1 : 0, batch = 1 - time;
  TORCH_CHECK(input.dim() == 3 && !parameters.empty(), "a sequence of 3 dimensions is expected");
  TORCH_CHECK(input.size(2) == parameters[0].size(1), "the input has ", input.size(2),
              " features, the weights take ", parameters[0].size(1));
  for (const at::Tensor &state : states)
    TORCH_CHECK(state.dim() == 3 && state.size(1) == input.size(batch), "a state for ",
                state.size(1), " sequences, of ", input.size(batch));
  const std::int64_t features = states[0].size(2) * (both_ways ? 2 : 1);
  const at::Tensor output =
      at::empty({input.size(time), input.size(batch), features}, input.options());
  std::vector<c10::IValue> results{batch_first ? output.transpose(0, 1) : output};
  for (const at::Tensor &state : states)
    results.emplace_back(at::empty(state.sizes(), state.options()));
  return results;
}

} // namespace

std::optional<std::vector<c10::IValue>> by_rule(std::string_view op,
                                                const std::vector<c10::IValue> &arguments) {
  if (arguments.size() != kRecurrentArguments || !arguments[8].isBool())
    return std::nullopt; // of packed sequences
  if (op == "aten::lstm")
    return recurrent(arguments, true);
  if (op == "aten::gru" || op == "aten::rnn_tanh" || op == "aten::rnn_relu")
    return recurrent(arguments, false);
  return std::nullopt;
}

} // namespace tracehost::trace
