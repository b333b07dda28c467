#include "archive/archive.h"
#include "archive/write.h"
#include "signature/native_atoms.h"
#include "support/entries.h"

#include "tracehost/tracehost.h"

#include <ATen/ATen.h>
#include <torch/csrc/jit/ir/irparser.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace tracehost {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Pair;

/// An archive of `scale(x) = x * w` and `shift(x) = x + b`, for float32[None, 3].
class RuntimeArchive : public testing::Test {
protected:
  RuntimeArchive() {
    archive::write(path,
                   {function("scale", "aten::mul(%x, %c)", "self.w", weight),
                    function("shift", "aten::add(%x, %c, %one)", "self.b", bias)},
                   false, {{"version", "7"}, {"classes", "cat,dog"}});
  }
  ~RuntimeArchive() override { std::remove(path.c_str()); }

  archive::SourceFunction function(const std::string &name, const std::string &op,
                                   const std::string &captured, const at::Tensor &tensor) {
    auto graph = std::make_shared<torch::jit::Graph>();
    torch::jit::parseIR("graph(%x : Tensor, %c : Tensor):\n"
                        "  %one : int = prim::Constant[value=1]()\n"
                        "  %y : Tensor = " +
                            op + "\n  return (%y)",
                        graph.get());
    archive::Source source;
    source.program = std::make_unique<Program>(std::move(graph), name, 1);
    TensorMeta x = TensorMeta::of(at::zeros({4, 3}));
    x.make_dynamic(0);
    auto parameters = std::make_shared<Parameters>();
    parameters->names = {"x"};
    parameters->kinds = {Parameters::Kind::positional};
    parameters->defaults = {""};
    source.signature.parameters = parameters;
    source.signature.slots = {x};
    source.signature.nodes = {leaf()};
    CaptureSpec capture;
    capture.path = captured;
    capture.meta = TensorMeta::of(tensor);
    source.signature.captures = {capture};
    source.captures = {tensor};
    source.parameters = {true};
    source.outputs.nodes = {leaf()};
    source.outputs.tensors = 1;
    source.output_metas = {x};
    return {name, parameters, {std::nullopt}, {source}};
  }
  static Node leaf() {
    Node node;
    node.kind = Kind::tensor;
    node.end = 1;
    return node;
  }
  std::string bytes() const {
    std::ifstream in(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
  }
  template <class E = Error> static std::string error(const std::function<void()> &act) {
    try {
      act();
    } catch (const E &e) {
      return e.what();
    }
    ADD_FAILURE() << "nothing was thrown";
    return {};
  }

  const std::string path = std::filesystem::temp_directory_path() /
                           ("tracehost-runtime-" + std::to_string(::getpid()) + ".thz");
  const at::Tensor weight = at::full({3}, 2.0), bias = at::full({3}, 10.0), x = at::ones({5, 3});
};

TEST_F(RuntimeArchive, ThatHoldsNothingSaysSo) {
  const Archive empty;
  EXPECT_FALSE(empty);
  for (const auto &act : std::vector<std::function<void()>>{
           [&] { empty["f"]; }, [&] { empty.contains("f"); }, [&] { empty.names(); },
           [&] { empty.path(); }, [&] { empty.hash(); }, [&] { empty.metadata(); },
           [&] { empty.tensors(); }, [&] { empty.with_tensors({}); }})
    EXPECT_EQ(error(act), "this tracehost::Archive is empty. Assign it the result of "
                          "tracehost::Archive::load.");
}

TEST_F(RuntimeArchive, HasWhatItsWriterAdded) {
  const auto archive = Archive::load(path);
  EXPECT_THAT(archive.metadata(), ElementsAre(Pair("classes", "cat,dog"), Pair("version", "7")));
}

TEST_F(RuntimeArchive, IsReadFromMemory) {
  const std::string file = bytes();
  const auto archive = Archive::load_from_memory(file, {}, "blob 3");
  EXPECT_TRUE(at::equal(archive["scale"](x), x * 2));
  EXPECT_EQ(archive.path(), "blob 3");
  EXPECT_EQ(archive.hash(), Archive::load(path).hash());
  const std::vector<char> cut(file.begin(), file.end() - 9);
  EXPECT_THAT(error<ArchiveError>([&] { Archive::load_from_memory(cut); }),
              HasSubstr("memory is not a tracehost archive, or it is cut off"));
  EXPECT_THAT(error<ArchiveError>([&] { Archive::load_from_memory({}); }),
              HasSubstr("it is empty"));
}

TEST_F(RuntimeArchive, OfSomeFunctionsAlone) {
  const auto archive = Archive::load(path, {.functions = {"shift"}});
  EXPECT_THAT(archive.names(), ElementsAre("shift"));
  EXPECT_EQ(archive.tensors().size(), 1);
  EXPECT_TRUE(at::equal(archive["shift"](x), x + 10));
  EXPECT_EQ(error<ArchiveError>([&] { Archive::load(path, {.functions = {"shfit"}}); }),
            path + ": it has no function 'shfit'; it has scale, shift");
}

TEST_F(RuntimeArchive, TakesOtherTensorsWithoutANewTrace) {
  const auto archive = Archive::load(path);
  std::vector<std::string> names;
  for (const auto &[name, tensor] : archive.tensors())
    names.push_back(name);
  EXPECT_THAT(names, ElementsAre("b", "w"));
  EXPECT_TRUE(at::equal(archive.tensors().at("w"), weight));
  const Archive tripled = archive.with_tensors({{"w", weight * 3}});
  EXPECT_TRUE(at::equal(tripled["scale"](x), x * 6));
  EXPECT_TRUE(at::equal(tripled["shift"](x), x + 10)) << "as it was";
  EXPECT_TRUE(at::equal(archive["scale"](x), x * 2)) << "the first one is as it was";
  archive.tensors().at("w").fill_(5);
  EXPECT_TRUE(at::equal(archive["scale"](x), x * 5)) << "its own memory";
  EXPECT_EQ(tripled.tensors().at("b").data_ptr(), archive.tensors().at("b").data_ptr());
}

TEST_F(RuntimeArchive, RefusesTensorsThatItsGraphsAreNotFor) {
  const auto archive = Archive::load(path);
  EXPECT_EQ(error([&] {
              archive.with_tensors({{"v", weight}});
            }),
            path + ": it has no tensor 'v'; it has b, w");
  EXPECT_EQ(error([&] {
              archive.with_tensors({{"w", at::ones({4})}});
            }),
            path + ": 'w' is float32[3], got float32[4]");
  EXPECT_EQ(error([&] {
              archive.with_tensors({{"w", weight.to(at::kDouble)}});
            }),
            path + ": 'w' is float32[3], got float64[3]");
  EXPECT_EQ(error([&] {
              archive.with_tensors({{"w", at::Tensor()}});
            }),
            path + ": the tensor given for 'w' is undefined");
}

TEST_F(RuntimeArchive, TakesOtherTensorsWhileItIsCalled) {
  Archive now = Archive::load(path);
  const Function first = now["scale"];
  std::atomic<bool> ends{false}, right{true};
  std::thread caller([&] {
    while (!ends)
      right = right && at::equal(first(x), x * 2);
  });
  for (int i = 1; i < 50; ++i) {
    now = now.with_tensors({{"w", at::full({3}, double(i))}});
    EXPECT_TRUE(at::equal(now["scale"](x), x * i));
  }
  ends = true;
  caller.join();
  EXPECT_TRUE(right);
}

TEST_F(RuntimeArchive, HasTheDigestThatItIsAskedFor) {
  EXPECT_EQ(Archive::load(path).sha256(), "");
  std::string digest(64, '0');
  const std::string said = error<ArchiveError>([&] { Archive::load(path, {.sha256 = digest}); });
  const std::string begin = path + ": its SHA-256 is ";
  ASSERT_THAT(said, testing::StartsWith(begin));
  digest = said.substr(begin.size(), digest.size());
  EXPECT_EQ(Archive::load(path, {.sha256 = digest}).sha256(), digest);
}

TEST_F(RuntimeArchive, SettledCallsRunOnTapesWhereTheLoadSaysSo) {
  const auto program = [](const archive::Contents &contents) -> const Program & {
    return *contents.find("scale")->specializations.front()->program;
  };
  const auto contents = archive::read({path, std::nullopt}, {.optimize = Optimize::exact});
  torch::jit::Stack stack;
  for (int i = 0; i < 4; ++i) {
    stack = {at::ones({2, 3}), weight};
    program(contents).run(stack);
  }
  EXPECT_THAT(program(contents).runs_by(), testing::StartsWith("a tape"));
  EXPECT_EQ(program(archive::read({path, std::nullopt}, {.optimize = Optimize::off})).runs_by(),
            "");
  const auto archive = Archive::load(path, {.optimize = "exact"});
  for (int i = 0; i < 4; ++i)
    EXPECT_TRUE(
        archive["scale"].call<at::Tensor>(at::ones({2, 3})).equal(at::ones({2, 3}) * weight));
}

TEST_F(RuntimeArchive, AnotherOptimizeIsAnError) {
  const auto message = [this](const std::string &optimize) -> std::string {
    try {
      Archive::load(path, {.optimize = optimize});
    } catch (const Error &e) {
      return e.what();
    }
    return "none";
  };
  EXPECT_EQ(message("off"), "none");
  EXPECT_EQ(message("fast"),
            "LoadOptions::optimize is 'fast', which is reserved; write 'exact' or 'off'");
  EXPECT_EQ(message("on"), "LoadOptions::optimize must be 'exact' or 'off', got 'on'");
}

} // namespace
} // namespace tracehost
