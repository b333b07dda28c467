#include "region/region.h"
#include "support/tape_beside.h"

#include <fmt/format.h>

/// Kernels of a tape that become regions: which ones, and that memory is as without them.

namespace tracehost::tape {
namespace {

struct Body {
  const char *name;
  std::size_t regions, steps;
  const char *nodes; ///< of %x [4, 6], %y [4, 6], %r [6]
  const char *outputs;
};

class Regions : public testing::TestWithParam<Body> {};

TEST_P(Regions, AreAsTheInterpreter) {
  if (!region::region_isa())
    GTEST_SKIP() << "eager has neither AVX2 nor AVX512 here";
  const Body &body = GetParam();
  const Beside graph(fmt::format(R"IR(graph(%x : Tensor, %y : Tensor, %r : Tensor):
  %zero : int = prim::Constant[value=0]()
  %one : int = prim::Constant[value=1]()
  %half : float = prim::Constant[value=0.5]()
{}
  return ({}))IR",
                                 body.nodes, body.outputs),
                     {at::zeros({4, 6}), at::zeros({4, 6}), at::zeros({6})});
  ASSERT_TRUE(graph.tape) << graph.why;
  EXPECT_EQ(graph.tape->regions(), body.regions);
  EXPECT_EQ(graph.tape->steps(), body.steps);
  for (int i = 0; i < 3; ++i)
    graph.expect_same({at::randn({4, 6}), at::randn({4, 6}), at::randn({6})});
}

INSTANTIATE_TEST_SUITE_P(
    Tape, Regions,
    testing::Values(
        Body{"Chain", 1, 1, R"IR(
  %a : Tensor = aten::mul(%x, %half)
  %b : Tensor = aten::add(%a, %y, %one)
  %c : Tensor = aten::relu(%b))IR",
             "%c"},
        Body{"Single", 0, 1, "  %a : Tensor = aten::mul(%x, %y)", "%a"},
        Body{"SeveralOutputs", 1, 1, R"IR(
  %a : Tensor = aten::mul(%x, %r)
  %b : Tensor = aten::sin(%a)
  %c : Tensor = aten::add(%b, %a, %one))IR",
             "%a, %c, %b"},
        Body{"ViewOfAResultEndsIt", 0, 2, R"IR(
  %a : Tensor = aten::mul(%x, %half)
  %t : Tensor = aten::select(%a, %zero, %one)
  %b : Tensor = aten::add(%t, %r, %one))IR",
             "%b"},
        Body{"ReadBehindIt", 1, 2, R"IR(
  %a : Tensor = aten::mul(%x, %half)
  %b : Tensor = aten::neg(%a)
  %t : Tensor = aten::t(%b)
  %c : Tensor = aten::mm(%t, %a))IR",
             "%c"},
        Body{"TwoBesideAProduct", 2, 3, R"IR(
  %a : Tensor = aten::mul(%x, %half)
  %b : Tensor = aten::neg(%a)
  %t : Tensor = aten::t(%b)
  %c : Tensor = aten::mm(%t, %y)
  %d : Tensor = aten::relu(%c)
  %e : Tensor = aten::mul(%d, %r))IR",
             "%e"},
        // %a's memory would be free for %e, %f or %g, which the region computes before it reads %a.
        Body{"MemoryThatItReads", 1, 6, R"IR(
  %t : Tensor = aten::t(%y)
  %m : Tensor = aten::mm(%x, %t)
  %a : Tensor = aten::mm(%m, %x)
  %b : Tensor = aten::mul(%x, %half)
  %c : Tensor = aten::sin(%b)
  %d : Tensor = aten::mul(%c, %a)
  %e : Tensor = aten::neg(%y)
  %f : Tensor = aten::abs(%y)
  %g : Tensor = aten::mul(%y, %y)
  %i : Tensor = aten::mm(%t, %e)
  %j : Tensor = aten::mm(%t, %f)
  %k : Tensor = aten::mm(%t, %g))IR",
             "%d, %i, %j, %k"}),
    [](const auto &info) { return std::string(info.param.name); });

} // namespace
} // namespace tracehost::tape
