#include "shapes/rules.h"

#include <ATen/ATen.h>

/// Recurrent layers, whose own way to a result is a loop over the time: a dozen tensors a step.

namespace tracehost::shapes {
namespace {

/// (input, hx, params, has_biases, num_layers, dropout, train, bidirectional, batch_first)
Values layers(const Values &a, bool has_cell) {
  const at::Tensor input = a[0].toTensor();
  std::vector<at::Tensor> states;
  if (has_cell)
    states = a[1].toTensorVector();
  else
    states = {a[1].toTensor()};
  const auto parameters = a[2].toTensorVector();
  const bool both_ways = a[7].toBool(), batch_first = a[8].toBool();
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
  Values results{batch_first ? output.transpose(0, 1) : output};
  for (const at::Tensor &state : states)
    results.emplace_back(at::empty(state.sizes(), state.options()));
  return results;
}
Values lstm(const Values &a) { return layers(a, true); }
Values without_cell(const Values &a) { return layers(a, false); }

/// (input, weight0, weight1, weight2, weight3, hx, cx, reverse, batch_sizes, mode, hidden_size,
/// ...)
/// -> (output, hy, cy, workspace)
Values mkldnn_layer(const Values &a) {
  const at::Tensor input = a[0].toTensor(), hx = a[5].toTensor(), cx = a[6].toTensor();
  return {at::empty({input.size(0), input.size(1), a[10].toInt()}, input.options()),
          at::empty(hx.sizes(), hx.options()), at::empty(cx.sizes(), cx.options()),
          at::empty({0}, input.options().dtype(at::kByte))};
}

} // namespace

const std::vector<NamedRule> kRecurrentRules = {
    {"aten::lstm.input", lstm},
    {"aten::gru.input", without_cell},
    {"aten::rnn_tanh.input", without_cell},
    {"aten::rnn_relu.input", without_cell},
    {"aten::mkldnn_rnn_layer", mkldnn_layer},
};

} // namespace tracehost::shapes
