#include "archive/archive.h"

#include "archive/manifest.h"
#include "archive/new_file.h"
#include "archive/write.h"
#include "program/ops.h"
#include "signature/native_atoms.h"
#include "tracehost/archive.h"

#include <ATen/ATen.h>
#include <torch/csrc/jit/api/module.h>
#include <torch/csrc/jit/ir/irparser.h>
#include <torch/csrc/jit/serialization/import.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <random>
#include <sstream>

namespace tracehost::archive {
namespace {

namespace jit = torch::jit;
namespace fs = std::filesystem;

using testing::HasSubstr;

fs::path place(const std::string &name) {
  return fs::temp_directory_path() / ("tracehost-" + std::to_string(::getpid()) + "-" + name);
}

std::string bytes_of(const fs::path &path) {
  std::ifstream in(path, std::ios::binary);
  std::ostringstream text;
  text << in.rdbuf();
  return text.str();
}

void put(const fs::path &path, const std::string &bytes) {
  std::ofstream(path, std::ios::binary) << bytes;
}

Node leaf(Kind kind, std::size_t at) {
  Node node;
  node.kind = kind;
  node.end = static_cast<std::uint32_t>(at + 1);
  return node;
}

std::unique_ptr<Program> program(const std::string &ir, std::size_t outputs = 1) {
  auto graph = std::make_shared<jit::Graph>();
  jit::parseIR(ir, graph.get());
  return std::make_unique<Program>(std::move(graph), "f", outputs);
}

/// f(x, mode='relu'): one tensor, one capture `self.w`.
struct Made {
  explicit Made(const std::string &ir, at::Tensor captured = at::full({3}, 2.0)) {
    Source source;
    source.program = program(ir);
    Signature &s = source.signature;
    auto parameters = std::make_shared<Parameters>();
    parameters->names = {"x", "mode"};
    parameters->kinds.resize(2, Parameters::Kind::positional);
    parameters->defaults = {"", "'relu'"};
    s.parameters = parameters;
    TensorMeta x = TensorMeta::of(at::zeros({4, 3}));
    x.make_dynamic(0);
    s.slots = {x};
    s.nodes = {leaf(Kind::tensor, 0)};
    Node mode = literal(Literal::Type::string, "relu", s.atoms);
    mode.end = 2;
    s.nodes.push_back(mode);
    CaptureSpec capture;
    capture.path = "self.w (net.py)";
    capture.meta = TensorMeta::of(captured);
    s.captures = {capture};
    source.captures = {captured};
    source.parameters = {true};
    source.outputs.nodes = {leaf(Kind::tensor, 0)};
    source.outputs.tensors = 1;
    source.output_metas = {x};
    function = {"predict", parameters, {std::nullopt, Value{}}, {source}};
    auto &value = *function.defaults[1];
    value.nodes = {literal(Literal::Type::string, "relu", value.atoms)};
    value.nodes[0].end = 1;
  }
  fs::path saved(const std::string &name = "one.pt") const {
    write(place(name), {function});
    return place(name);
  }

  SourceFunction function;
};

constexpr const char *kScale = R"(graph(%x : Tensor, %w : Tensor):
  %y : Tensor = aten::mul(%x, %w)
  return (%y))";

at::Tensor run(const Specialization &s, const at::Tensor &x) {
  jit::Stack stack{x, state(s).captures.at(0)};
  s.program->run(stack);
  return stack.at(0).toTensor();
}

std::string error(const std::string &path) {
  try {
    read(path);
  } catch (const Error &e) {
    return e.what();
  }
  return "no error";
}

TEST(Archive, isReadAsItWasWritten) {
  const auto path = Made(kScale).saved();
  const Contents contents = read(path);
  ASSERT_NE(contents.find("predict"), nullptr);
  const Entry &entry = *contents.find("predict");
  ASSERT_EQ(entry.specializations.size(), 1U);
  EXPECT_EQ(text(entry.specializations[0]->signature), "(x: float32[None, 3], mode='relu')");
  EXPECT_FALSE(entry.defaults[0]);
  EXPECT_EQ(entry.parameters->defaults[1], "'relu'");
  const at::Tensor x = at::rand({7, 3});
  EXPECT_TRUE(at::equal(run(*entry.specializations[0], x), x * 2));
  EXPECT_EQ(state(*entry.specializations[0]).attributes, std::vector<std::string>{"w"});
  EXPECT_TRUE(fs::remove(path));
}

TEST(Archive, saysWhatFitsNoGraph) {
  const auto path = Made(kScale).saved();
  const Function predict = tracehost::Archive::load(path)["predict"];
  try {
    predict(at::zeros({7, 4}, at::kDouble), "tanh");
    ADD_FAILURE() << "was served";
  } catch (const SignatureError &e) {
    EXPECT_STREQ(e.what(), "predict: none of 1 graph serves this call.\n"
                           "  why      argument 'x' has dtype float64, not float32\n"
                           "  why      argument 'x', dimension 1, is 4, not 3\n"
                           "  why      argument 'mode' is 'tanh', not 'relu'\n"
                           "  call     (x: float64[7, 4], mode='tanh')\n"
                           "  nearest  (x: float32[None, 3], mode='relu')");
  }
  fs::remove(path);
}

TEST(Archive, servesTensorsOfInferenceModeAndThoseThatRequireGrad) {
  const auto path = Made(kScale).saved();
  const Function predict = tracehost::Archive::load(path)["predict"].with_inference_mode(false);
  {
    const c10::InferenceMode on;
    EXPECT_NO_THROW(predict(at::ones({2, 3})));
  }
  const at::Tensor y = at::ones({2, 3}).requires_grad_();
  EXPECT_TRUE(at::Tensor(predict(y)).requires_grad());
  fs::remove(path);
}

TEST(Archive, hasTheSameBytesEachTime) {
  const auto a = Made(kScale).saved("a.pt"), b = Made(kScale).saved("b.pt");
  EXPECT_EQ(bytes_of(a), bytes_of(b));
  fs::remove(a);
  fs::remove(b);
}

TEST(Archive, keepsNoFileNames) {
  const auto path = Made(kScale).saved();
  EXPECT_THAT(bytes_of(path), testing::Not(HasSubstr("net.py")));
  fs::remove(path);
}

TEST(Archive, opensInPlainTorch) {
  const auto path = Made(kScale).saved();
  jit::ExtraFilesMap extra{{"tracehost.json", ""}};
  auto module = jit::load(path.string(), std::nullopt, extra);
  const at::Tensor x = at::rand({2, 3});
  EXPECT_TRUE(at::equal(module.get_method("predict")({x}).toTensor(), x * 2));
  EXPECT_TRUE(at::equal(module.forward({x}).toTensor(), x * 2));
  EXPECT_EQ(extra["tracehost.json"], manifest(path));
  fs::remove(path);
}

TEST(Archive, lowersItsOwnOps) {
  const Made made(R"(graph(%x : Tensor, %w : Tensor):
  %two : int = prim::Constant[value=2]()
  %zero : int = prim::Constant[value=0]()
  %no : bool = prim::Constant[value=0]()
  %draw : Tensor = aten::mul(%w, %w)
  tracehost::keep(%draw)
  %list : Tensor[] = tracehost::array_new(%zero)
  tracehost::array_write(%list, %two, %x, %no)
  tracehost::array_write(%list, %zero, %w, %no)
  %y : Tensor = tracehost::array_read(%list, %two)
  %d : Tensor = tracehost::data(%y)
  return (%d))");
  const auto path = made.saved();
  const Contents contents = read(path);
  const at::Tensor x = at::rand({2, 3});
  EXPECT_TRUE(at::equal(run(*contents.functions[0].specializations[0], x), x));
  EXPECT_TRUE(at::equal(jit::load(path.string()).forward({x}).toTensor(), x));
  fs::remove(path);
}

TEST(Archive, raisesWhatTheGraphRaises) {
  const Made made(R"(graph(%x : Tensor, %w : Tensor):
  %zero : int = prim::Constant[value=0]()
  %list : Tensor[] = tracehost::array_new(%zero)
  %y : Tensor = tracehost::array_read(%list, %zero)
  return (%y))");
  const auto path = made.saved();
  const Contents contents = read(path);
  try {
    run(*contents.functions[0].specializations[0], at::ones({1, 3}));
    ADD_FAILURE() << "nothing was thrown";
  } catch (const c10::IndexError &e) {
    EXPECT_STREQ(e.what_without_backtrace(), "element 0 is read of a TensorArray that has 0");
  }
  fs::remove(path);
}

TEST(Archive, keepsNumbersNumbers) {
  auto graph = std::make_shared<jit::Graph>();
  jit::Value *x = graph->addInput("x"), *w = graph->addInput("w");
  at::Tensor half = at::scalar_tensor(0.5, at::kDouble);
  half.unsafeGetTensorImpl()->set_wrapped_number(true);
  jit::Value *sum = graph->insert(c10::Symbol::fromQualString("aten::sum"), {x});
  jit::Node *node = graph->insertNode(graph->create(c10::Symbol::fromQualString("aten::mul"),
                                                    {sum, graph->insertConstant(half)}, 1));
  jit::Value *one = graph->insertConstant(1);
  jit::Node *add = graph->insertNode(
      graph->create(c10::Symbol::fromQualString("aten::add"), {node->output(), w, one}, 1));
  graph->registerOutput(add->output());
  Made made(kScale);
  made.function.specializations[0].program = std::make_unique<Program>(graph, "f", 1);
  const auto path = made.saved();
  const at::Tensor in = at::ones({1, 3});
  EXPECT_EQ(jit::load(path.string()).forward({in}).toTensor().scalar_type(), at::kFloat);
  EXPECT_EQ(run(*read(path).functions[0].specializations[0], in).scalar_type(), at::kFloat);
  fs::remove(path);
}

TEST(Archive, rejectsAGraphThatNeedsAutograd) {
  Made made(R"(graph(%x : Tensor, %w : Tensor):
  tracehost::retain_grad(%x)
  return (%x))");
  try {
    made.saved("rejected.pt");
    ADD_FAILURE() << "nothing was thrown";
  } catch (const Error &e) {
    EXPECT_STREQ(e.what(), "predict(x: float32[None, 3], mode='relu') can't be saved: a read or "
                           "write of .grad needs autograd's engine, which no op of TorchScript "
                           "runs. Save the forward function");
  }
  EXPECT_FALSE(fs::exists(place("rejected.pt")));
}

TEST(Archive, namesWhatCantBeRead) {
  const std::string path = place("wrong.pt").string();
  EXPECT_EQ(error(path), path + " can't be read: No such file or directory");
  EXPECT_EQ(error("/"), "/ is no file: it is a folder");
  put(path, "");
  EXPECT_EQ(error(path), path + " is not a tracehost archive: it is empty");
  put(path, "#!/bin/sh\n");
  EXPECT_EQ(error(path), path + " is not a tracehost archive: it is not a zip file");
  jit::Module("Plain").save(path);
  EXPECT_EQ(error(path), path + " is not a tracehost archive, or it is cut off: its end is "
                                "missing. Copy or save it again.");
  fs::remove(path);
}

TEST(Archive, findsEachCutAndEachFlippedByte) {
  const std::string whole = bytes_of(Made(kScale).saved());
  const auto path = place("damaged.pt");
  std::mt19937 random(7);
  for (std::size_t size = 0; size < whole.size(); size += 1 + random() % 400) {
    put(path, whole.substr(0, size));
    EXPECT_THAT(error(path), HasSubstr(" is not a tracehost archive")) << size;
  }
  for (int i = 0; i < 400; ++i) {
    std::string other = whole;
    const std::size_t at = random() % other.size();
    other[at] = static_cast<char>(other[at] ^ (1 << random() % 8));
    put(path, other);
    EXPECT_NE(error(path), "no error") << at;
  }
  fs::remove(path);
}

/// The archive with another manifest, and the right hash.
void replace_manifest(const fs::path &from, const fs::path &to, const std::string &text) {
  caffe2::serialize::PyTorchStreamReader reader(from.string());
  NewFile file(to.string());
  caffe2::serialize::PyTorchStreamWriter writer([&](const void *bytes, std::size_t count) {
    file.append(bytes, count);
    return count;
  });
  for (const std::string &name : reader.getAllRecords()) {
    if (name == "version" || name.starts_with(".data") || name == "byteorder")
      continue;
    const auto [data, size] = reader.getRecord(name);
    if (name == "extra/tracehost.json")
      writer.writeRecord(name, text.data(), text.size());
    else
      writer.writeRecord(name, data.get(), size);
  }
  writer.writeEndOfFile();
  file.complete();
  file.publish();
}

TEST(Archive, takesNoManifestForGranted) {
  const auto good = Made(kScale).saved(), bad = place("bad.pt");
  const std::string text = manifest(good);
  replace_manifest(good, bad, text);
  EXPECT_EQ(error(bad), "no error");
  const auto with = [&](const std::string &from, const std::string &to) {
    std::string other = text;
    const auto at = other.find(from);
    EXPECT_NE(at, std::string::npos) << from;
    replace_manifest(good, bad, other.replace(at, from.size(), to));
    const std::string found = error(bad);
    return found.substr(std::min(found.size(), bad.string().size() + 2));
  };
  EXPECT_EQ(with("\"version\": 2", "\"version\": 9"),
            "it is of version 9 of the format, written by tracehost " TRACEHOST_VERSION
            "; this is tracehost " TRACEHOST_VERSION ", which reads version 2. Update tracehost.");
  EXPECT_EQ(with("\"version\": 2", "\"version\": 1"),
            "it is of version 1 of the format, written by tracehost " TRACEHOST_VERSION
            "; this is tracehost " TRACEHOST_VERSION ", which reads version 2. Save it again.");
  EXPECT_EQ(with("\"tensor\": 0", "\"tensor\": 7"),
            "its manifest is wrong: a tensor that is not there");
  EXPECT_EQ(with("\"graph\": 0", "\"graph\": 1"),
            "it is not what tracehost writes: it has no graph of that number");
  EXPECT_EQ(with("\"attribute\": \"w\"", "\"attribute\": \"training\""),
            "it is not what tracehost writes: it has no tensor 'training'");
  EXPECT_EQ(with("\"dtype\": \"float32\"", "\"dtype\": \"float33\""),
            "its manifest is wrong: 'float33' is no dtype");
  // Anything else: an error or the archive, no crash.
  std::mt19937 random(11);
  for (int i = 0; i < 300; ++i) {
    std::string other = text;
    const std::size_t at = random() % other.size();
    constexpr std::string_view put_in = "0123456789-{}[]\",:nx";
    other[at] = put_in[random() % put_in.size()];
    if (random() % 4 == 0)
      other.erase(random() % other.size(), random() % 40);
    replace_manifest(good, bad, other);
    error(bad);
    try { // the C++ API throws what it documents alone
      for (const std::string &name : tracehost::Archive::load(bad.string()).names())
        EXPECT_FALSE(name.empty());
    } catch (const tracehost::ArchiveError &e) {
      EXPECT_GT(std::string_view(e.what()).size(), bad.string().size() + 2);
    }
  }
  fs::remove(good);
  fs::remove(bad);
}

TEST(Archive, leavesTheFileThatWasThereWhereItFails) {
  const auto path = place("kept.pt");
  put(path, "before");
  Made made(R"(graph(%x : Tensor, %w : Tensor):
  tracehost::retain_grad(%x)
  return (%x))");
  EXPECT_THROW(write(path, {made.function}), Error);
  EXPECT_EQ(bytes_of(path), "before");
  EXPECT_THROW(write("/no/such/folder/f.pt", {Made(kScale).function}), Error);
  fs::remove(path);
}

TEST(NativeAtoms, printAsPythonDoes) {
  std::vector<AtomRef> atoms;
  const auto shown = [&](Literal::Type type, std::string value) {
    return literal(type, std::move(value), atoms).payload.atom->text();
  };
  EXPECT_EQ(shown(Literal::Type::string, "it's"), "\"it's\"");
  EXPECT_EQ(shown(Literal::Type::string, "a\n'\""), "'a\\n\\'\"'");
  EXPECT_EQ(shown(Literal::Type::bytes, std::string("\0a", 2)), "b'\\x00a'");
  EXPECT_EQ(shown(Literal::Type::torch, "float32"), "torch.float32");
  EXPECT_EQ(shown(Literal::Type::member, "net:Color.RED"), "Color.RED");
  const double parts[] = {1.0, -2.5};
  EXPECT_EQ(shown(Literal::Type::complex,
                  std::string(reinterpret_cast<const char *>(parts), sizeof parts)),
            "(1-2.5j)");
}

} // namespace
} // namespace tracehost::archive
