#include "support/tape_beside.h"

#include <fmt/format.h>

/// Products of matrices beside the interpreter's, in all sizes and layouts that BLAS takes.

namespace tracehost::tape {
namespace {

struct Product {
  const char *name;
  const char *node;
};

class Products : public testing::TestWithParam<Product> {};

/// Rows or columns that lie further apart than they are long, transposed, or plain.
std::vector<at::Tensor> layouts(std::int64_t rows, std::int64_t columns, at::ScalarType dtype) {
  return {at::randn({rows, columns}, dtype), at::randn({columns, rows}, dtype).t(),
          at::randn({rows, columns + 3}, dtype).narrow(1, 1, columns),
          at::randn({columns, rows + 2}, dtype).narrow(1, 0, rows).t()};
}

TEST_P(Products, HaveTheInterpretersBits) {
  const std::string text = fmt::format(R"IR(graph(%x : Tensor, %w : Tensor, %b : Tensor):
  %one : int = prim::Constant[value=1]()
  %zero : int = prim::Constant[value=0]()
  %none : NoneType = prim::Constant()
  %t : Tensor = aten::transpose(%w, %zero, %one)
  %y : Tensor = {}
  return (%y))IR",
                                       GetParam().node);
  at::manual_seed(1);
  for (const auto dtype : {at::kFloat, at::kDouble})
    for (const std::int64_t n : {1, 2, 64})
      for (const std::int64_t k : {1, 3, 65})
        for (const std::int64_t m : {1, 64})
          for (const at::Tensor &x : layouts(n, k, dtype))
            for (const at::Tensor &w : layouts(m, k, dtype)) {
              const at::Tensor bias = at::randn({m}, dtype);
              const Beside graph(text, {x, w, bias});
              ASSERT_TRUE(graph.tape) << graph.why;
              const Tensors inputs{x.clone(at::MemoryFormat::Preserve).mul(3), w.neg(), bias + 1};
              // What clone() and neg() made dense has other strides: the guards would not hold.
              if (inputs[0].strides() == x.strides() && inputs[1].strides() == w.strides())
                graph.expect_same(stack_of(inputs));
              x.mul_(0.7);
              graph.expect_same({x, w, bias});
            }
}

INSTANTIATE_TEST_SUITE_P(
    Tape, Products,
    testing::Values(Product{"mm", "aten::mm(%x, %t)"}, Product{"matmul", "aten::matmul(%x, %t)"},
                    Product{"addmm", "aten::addmm(%b, %x, %t, %one, %one)"},
                    Product{"linear", "aten::linear(%x, %w, %b)"},
                    Product{"linear_without_bias", "aten::linear(%x, %w, %none)"}),
    [](const auto &info) { return std::string(info.param.name); });

} // namespace
} // namespace tracehost::tape
