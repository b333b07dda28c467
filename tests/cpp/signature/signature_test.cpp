#include "signature/signature.h"

#include "signature/signature_hash.h"
#include "support/signatures.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include <limits>

namespace tracehost {
namespace {
using namespace test;

std::string shown(double value) {
  const Signature signature = call({{"x", real(value)}});
  return text(signature, signature.nodes[0]);
}

TEST(Signature, ReadsAsTheCallWasWritten) {
  const auto signature =
      call({{"x", tensor(0, meta({8, 3}))}, {"n", integer(2)}, {"mode", string("train")}});
  EXPECT_EQ(text(signature), "(x: float32[8, 3], n=2, mode='train')");
}

TEST(Signature, OfACallHasTheModesThatAreNotAsUsual) {
  auto signature = call({{"x", tensor(0, meta({8}))}, {"n", integer(2)}});
  signature.context = Context::now();
  EXPECT_EQ(call_text(signature), "(x: float32[8], n=2)");
  signature.checked.push_back({"train.py:5", "3"});
  EXPECT_EQ(call_text(signature), "(x: float32[8], n=2)") << "what a trace finds is left out";
  signature.context.grad = false;
  signature.context.default_dtype = at::kDouble;
  EXPECT_EQ(call_text(signature), "(x: float32[8], n=2) with grad mode off, default dtype float64");
}

TEST(Signature, NamesTheSameTensorByItsFirstPlace) {
  const auto x = tensor(0, meta({8}));
  EXPECT_EQ(text(call({{"x", x}, {"y", x}, {"z", list({x})}})), "(x: float32[8], y=x, z=[x])");
}

TEST(Signature, WritesContainersAsPythonDoes) {
  const auto config =
      container(Kind::record, "<class Config>", {real(0.1), none()}, {".lr", ".act"});
  EXPECT_EQ(text(call({{"c", config}})), "(c=Config(lr=0.1, act=None))");
  EXPECT_EQ(text(call({{"t", tuple({integer(1)})}, {"e", tuple({})}})), "(t=(1,), e=())");
  EXPECT_EQ(text(call({{"d", dict({{"a", list({boolean(true)})}})}})), "(d={'a': [True]})");
  EXPECT_EQ(text(call({{"d", container(Kind::dict, "OrderedDict", {string("a"), integer(1)})}})),
            "(d=OrderedDict({'a': 1}))");
}

TEST(Signature, EqualOnesHaveEqualHashes) {
  const auto made = [](std::int64_t size, double rate, const char *mode, bool list_of_two = false) {
    const auto x = tensor(0, meta({size, 3}));
    return call({{"x", x},
                 {"rate", real(rate)},
                 {"mode", string(mode)},
                 {"more", list_of_two ? list({x, x}) : list({x})}});
  };
  const std::size_t one = hash(made(8, 0.5, "train"));
  EXPECT_EQ(one, hash(made(8, 0.5, "train")));
  EXPECT_NE(one, hash(made(4, 0.5, "train")));
  EXPECT_NE(one, hash(made(8, 0.25, "train")));
  EXPECT_NE(one, hash(made(8, 0.5, "eval")));
  EXPECT_NE(one, hash(made(8, 0.5, "train", true)));
}

TEST(Signature, DropsTheStarsOfParameters) {
  const auto signature = call({{"*args", tuple({integer(1)})}, {"**kwargs", dict({})}});
  EXPECT_EQ(text(signature), "(args=(1,), kwargs={})");
  EXPECT_EQ(path(signature, 1), "args[0]");
}

TEST(Signature, ShowsALeafAsAUserWouldWriteItAndAContainerByItsSize) {
  const auto signature = call({{"d", dict({{"a", none()}, {"b", none()}})},
                               {"t", tuple({list({}), integer(-5)})},
                               {"gpu", leaf(Kind::device, 1 << 8 | 1)},
                               {"e", leaf(Kind::ellipsis)}});
  EXPECT_EQ(text(signature, signature.nodes[signature.subtree(0)]), "dict of 2");
  EXPECT_EQ(text(signature, signature.nodes[signature.subtree(1)]), "tuple of 2");
  EXPECT_EQ(text(signature, signature.nodes[signature.subtree(2)]), "cuda:0");
  EXPECT_EQ(text(signature, signature.nodes[signature.subtree(3)]), "...");
  EXPECT_EQ(text(signature, leaf(Kind::absent).node), "nothing");
}

TEST(Signature, WritesFloatsAsPythonsRepr) {
  EXPECT_EQ(shown(0.1), "0.1");
  EXPECT_EQ(shown(1), "1.0");
  EXPECT_EQ(shown(-0.0), "-0.0");
  EXPECT_EQ(shown(1.0 / 3), "0.3333333333333333");
  EXPECT_EQ(shown(0.0001), "0.0001");
  EXPECT_EQ(shown(0.00001), "1e-05");
  EXPECT_EQ(shown(1e15), "1000000000000000.0");
  EXPECT_EQ(shown(1e16), "1e+16");
  EXPECT_EQ(shown(1.5e300), "1.5e+300");
  EXPECT_EQ(shown(9007199254740994.0), "9007199254740994.0");
  EXPECT_EQ(shown(std::numeric_limits<double>::quiet_NaN()), "nan");
  EXPECT_EQ(shown(-std::numeric_limits<double>::infinity()), "-inf");
}

TEST(Signature, ReachesEachNodeByThePathAUserWouldWrite) {
  const auto point = container(Kind::tuple, "Point", {real(0), real(1)}, {".x", ".y"});
  const auto signature =
      call({{"a", integer(0)},
            {"batch", dict({{"image", list({tensor(0, meta({8})), integer(3)})}, {"at", point}})},
            {"cfg", container(Kind::record, "Config", {real(0.1)}, {".lr"})}});
  const std::vector<std::string> expected = {"a",
                                             "batch",
                                             "batch['image']",
                                             "batch['image']",
                                             "batch['image'][0]",
                                             "batch['image'][1]",
                                             "batch['at']",
                                             "batch['at']",
                                             "batch['at'].x",
                                             "batch['at'].y",
                                             "cfg",
                                             "cfg.lr"};
  ASSERT_EQ(signature.nodes.size(), expected.size());
  for (std::size_t i = 0; i < expected.size(); ++i)
    EXPECT_EQ(path(signature, i), expected[i]) << i;
  EXPECT_EQ(signature.subtree(1), 1u);
  EXPECT_EQ(signature.subtree(2), 10u);
}

TEST(Signature, IsGoneWithAnObjectThatItRefersToWeakly) {
  EXPECT_TRUE(call({{"c", object("Config")}}).alive());
  const auto gone =
      std::make_shared<TextAtom>("<object that is gone>", std::vector<std::string>(), false);
  EXPECT_FALSE(call({{"n", integer(1)}, {"c", atom(gone)}}).alive());
}

TEST(Nodes, AreComparedByTypeAndBits) {
  const auto equal = [](const Value &a, const Value &b) {
    const auto one = call({{"x", a}}), other = call({{"x", b}});
    return same(one.nodes[0], other.nodes[0]);
  };
  const double nan = std::numeric_limits<double>::quiet_NaN();
  EXPECT_TRUE(equal(real(nan), real(nan)));
  EXPECT_FALSE(equal(real(0.0), real(-0.0)));
  EXPECT_FALSE(equal(integer(1), boolean(true)));
  EXPECT_FALSE(equal(integer(1), real(1)));
  EXPECT_TRUE(equal(none(), none()));
  EXPECT_TRUE(equal(string("a"), string("a")));
  EXPECT_FALSE(equal(object("Config"), object("Config")));
  EXPECT_FALSE(equal(list({none()}), list({none(), none()})));
  EXPECT_FALSE(equal(list({}), tuple({})));
}

TEST(TensorMeta, ReadsLikeATensorsDeclaration) {
  EXPECT_EQ(meta({8, 3}).text(), "float32[8, 3]");
  EXPECT_EQ(meta({}, at::kLong).text(), "int64[]");
  const auto x = at::empty({2}).requires_grad_();
  EXPECT_EQ(TensorMeta::of(x).text(), "float32[2], requires_grad");
  EXPECT_EQ(TensorMeta::of(x.detach(), &x, "Parameter").text(), "Parameter float32[2]");
  EXPECT_EQ(TensorMeta::of(at::empty({2}, at::kMeta)).text(), "float32[2], meta");
}

TEST(TensorMeta, KnowsLayouts) {
  const auto x = at::ones({2, 3});
  const auto sparse = x.to_sparse();
  EXPECT_EQ(TensorMeta::of(sparse).text(), "float32[2, 3], sparse");
  EXPECT_EQ(TensorMeta::of(x.to(at::kComplexFloat).conj()).text(), "complex64[2, 3] (conj)");
  EXPECT_TRUE(TensorMeta::of(x) == TensorMeta::of(at::zeros({2, 3})));
  EXPECT_FALSE(TensorMeta::of(x) == TensorMeta::of(at::zeros({3, 2}).t()));
}

TEST(TensorMeta, NamesDtypesAsTorchDoes) {
  EXPECT_EQ(dtype_name(at::kFloat), "float32");
  EXPECT_EQ(dtype_name(at::kHalf), "float16");
  EXPECT_EQ(dtype_name(at::kByte), "uint8");
  EXPECT_EQ(dtype_name(at::kBool), "bool");
}

} // namespace
} // namespace tracehost
