#include "support/tape_beside.h"

#include <fmt/format.h>

#include <limits>

/// Ops that write to memory that is there, beside the interpreter: recorded on zeros, where wrong
/// kernels look right, and run on values of all kinds.

namespace tracehost::tape {
namespace {

struct OutOp {
  const char *name;
  const char *node; ///< of %x, of the sizes below
  std::vector<std::int64_t> sizes;
};

class OutKernels : public testing::TestWithParam<OutOp> {};

at::Tensor with_specials(at::Tensor t) {
  const double special[] = {std::numeric_limits<double>::quiet_NaN(),
                            std::numeric_limits<double>::infinity(),
                            -0.0,
                            1e-40,
                            -88.8,
                            1e30};
  at::Tensor flat = t.view({-1});
  for (std::int64_t i = 0; i < flat.numel(); i += 17)
    flat[i].fill_(special[static_cast<std::size_t>(i / 17) % std::size(special)]);
  return t;
}

TEST_P(OutKernels, HaveTheInterpretersBits) {
  const OutOp &op = GetParam();
  at::manual_seed(3);
  for (const auto dtype : {at::kFloat, at::kDouble}) {
    const std::string text = fmt::format(R"IR(graph(%x : Tensor, %w : Tensor, %b : Tensor):
  %none : NoneType = prim::Constant()
  %zero : int = prim::Constant[value=0]()
  %one : int = prim::Constant[value=1]()
  %last : int = prim::Constant[value=-1]()
  %eight : int = prim::Constant[value=8]()
  %eps : float = prim::Constant[value=1e-5]()
  %two : float = prim::Constant[value=2.]()
  %cube : int = prim::Constant[value=3]()
  %yes : bool = prim::Constant[value=1]()
  %no : bool = prim::Constant[value=0]()
  %dtype : int = prim::Constant[value={}]()
  %exact : str = prim::Constant[value="none"]()
  %tanh : str = prim::Constant[value="tanh"]()
  %dims : int[] = prim::ListConstruct(%zero)
  %ends : int[] = prim::ListConstruct(%zero, %last)
  %shape : int[] = prim::ListConstruct(%eight)
  %xs : Tensor[] = prim::ListConstruct(%x, %x)
  %y : Tensor = {}
  return (%y))IR",
                                         static_cast<int>(dtype), op.node);
    const at::Tensor w = at::zeros({8, 8}, dtype), b = at::zeros({8}, dtype);
    const Beside graph(text, {at::zeros(op.sizes, dtype), w, b});
    ASSERT_TRUE(graph.tape) << graph.why;
    EXPECT_EQ(graph.tape->kernels(), 1U);
    for (int i = 0; i < 3; ++i)
      graph.expect_same(
          {at::randn(op.sizes, dtype), at::randn({8, 8}, dtype), at::randn({8}, dtype)});
    graph.expect_same({with_specials(at::randn(op.sizes, dtype)), at::randn({8, 8}, dtype),
                       at::randn({8}, dtype)});
  }
}

INSTANTIATE_TEST_SUITE_P(
    Tape, OutKernels,
    testing::Values(
        OutOp{"softmax", "aten::softmax(%x, %one, %none)", {5, 7, 8}},
        OutOp{"softmax_last", "aten::softmax(%x, %last, %none)", {33, 8}},
        OutOp{"log_softmax", "aten::log_softmax(%x, %one, %none)", {5, 7, 8}},
        OutOp{"log_softmax_last", "aten::log_softmax(%x, %last, %none)", {33, 8}},
        OutOp{"gelu", "aten::gelu(%x, %exact)", {9, 8}},
        OutOp{"gelu_tanh", "aten::gelu(%x, %tanh)", {9, 8}},
        OutOp{"silu", "aten::silu(%x)", {9, 8}}, OutOp{"square", "aten::pow(%x, %two)", {9, 8}},
        OutOp{"cube", "aten::pow(%x, %cube)", {9, 8}},
        OutOp{"sum", "aten::sum(%x, %dims, %no, %none)", {33, 8}},
        OutOp{"sum_keeps", "aten::sum(%x, %ends, %yes, %none)", {33, 3, 8}},
        OutOp{"mean", "aten::mean(%x, %dims, %no, %none)", {33, 8}},
        OutOp{"mean_all", "aten::mean(%x, %none, %no, %none)", {33, 8}},
        OutOp{"cat", "aten::cat(%xs, %zero)", {9, 8}},
        OutOp{"cat_last", "aten::cat(%xs, %last)", {9, 8}},
        OutOp{"layer_norm", "aten::layer_norm(%x, %shape, %b, %b, %eps, %yes)", {5, 9, 8}},
        OutOp{"bmm", "aten::bmm(%x, %x)", {3, 8, 8}},
        OutOp{"sum_all", "aten::sum(%x, %none)", {33, 8}},
        OutOp{"mean_of_all", "aten::mean(%x, %none)", {33, 8}},
        OutOp{"square_of", "aten::square(%x)", {9, 8}},
        OutOp{"softmax_below", "aten::_softmax(%x, %one, %no)", {5, 7, 8}},
        OutOp{"log_softmax_below", "aten::_log_softmax(%x, %last, %no)", {33, 8}},
        OutOp{"softmax_grad", "aten::_softmax_backward_data(%x, %w, %last, %dtype)", {8, 8}},
        OutOp{
            "log_softmax_grad", "aten::_log_softmax_backward_data(%x, %w, %last, %dtype)", {8, 8}},
        OutOp{"relu_grad", "aten::threshold_backward(%x, %w, %zero)", {8, 8}},
        OutOp{"tanh_grad", "aten::tanh_backward(%x, %w)", {8, 8}},
        OutOp{"sigmoid_grad", "aten::sigmoid_backward(%x, %w)", {8, 8}},
        OutOp{"silu_grad", "aten::silu_backward(%x, %w)", {8, 8}},
        OutOp{"gelu_grad", "aten::gelu_backward(%x, %w, %exact)", {8, 8}},
        OutOp{"gelu_tanh_grad", "aten::gelu_backward(%x, %w, %tanh)", {8, 8}},
        OutOp{"mse_each", "aten::mse_loss(%x, %w, %zero)", {8, 8}},
        OutOp{"mse_grad", "aten::mse_loss_backward(%w, %x, %w, %zero)", {8, 8}},
        OutOp{"lt", "aten::lt(%x, %b)", {9, 8}}, OutOp{"le", "aten::le(%x, %two)", {9, 8}},
        OutOp{"gt", "aten::gt(%x, %zero)", {9, 8}}, OutOp{"ge", "aten::ge(%x, %b)", {9, 8}},
        OutOp{"eq", "aten::eq(%x, %x)", {9, 8}}, OutOp{"ne", "aten::ne(%x, %zero)", {9, 8}},
        OutOp{"linear_of_3", "aten::linear(%x, %w, %b)", {3, 5, 8}},
        OutOp{"linear_of_4", "aten::linear(%x, %w, %b)", {2, 3, 5, 8}},
        OutOp{"linear_of_5", "aten::linear(%x, %w, %b)", {2, 1, 3, 5, 8}},
        OutOp{"linear_of_3_without", "aten::linear(%x, %w, %none)", {3, 5, 8}},
        OutOp{"linear_of_4_without", "aten::linear(%x, %w, %none)", {2, 3, 5, 8}}),
    [](const auto &info) { return std::string(info.param.name); });

} // namespace
} // namespace tracehost::tape
