#include "tracehost/watcher.h"

#include "archive/write.h"
#include "support/entries.h"

#include <ATen/ATen.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <future>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include <unistd.h>

namespace tracehost {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::HasSubstr;

class RuntimeWatcher : public testing::Test {
protected:
  RuntimeWatcher() {
    fs::create_directories(folder);
    options.interval = std::chrono::milliseconds(0); // the tests look themselves
    options.on_error = [this](const std::string &message) { errors.push_back(message); };
    options.on_reload = [this](const Archive &archive) { reloads.push_back(archive.hash()); };
  }
  ~RuntimeWatcher() override { // not remove_all: torch 2.11 exports one that crashes
    fs::remove(path);
    fs::remove(folder);
  }

  /// An archive of name(x) = x + number.
  void save(int number, const std::string &name = "add") {
    const auto graph =
        test::graph_for(test::call({{"x", test::tensor(0, test::meta({2}))}}), {at::ones(2)},
                        [&](const test::Tensors &in) -> test::Tensors { return {in[0] + number}; });
    archive::Source source;
    source.program = graph->program;
    source.signature = graph->signature;
    source.outputs = graph->outputs;
    source.output_metas = {TensorMeta::of(at::ones(2))};
    archive::write(path, {{name, graph->signature.parameters, {std::nullopt}, {source}}});
    touch();
  }
  void spoil() {
    std::ofstream(path) << "no archive";
    touch();
  }
  /// Each file is later than the one before, however fast they are written.
  void touch() { fs::last_write_time(path, start + std::chrono::seconds(++files)); }
  static int added(const Function &f) { return at::Tensor(f(at::zeros(2)))[0].item<int>(); }

  const fs::path folder =
      fs::path(testing::TempDir()) / ("tracehost_watcher_test" + std::to_string(getpid()));
  const std::string path = (folder / "live.thz").string();
  const fs::file_time_type start = fs::file_time_type::clock::now();
  int files = 0;
  WatchOptions options;
  std::vector<std::string> errors, reloads;
};

TEST_F(RuntimeWatcher, TakesANewFile) {
  save(1);
  Watcher watcher(path, options);
  const Function f = watcher["add"];
  EXPECT_EQ(added(f), 1);
  EXPECT_FALSE(watcher.poll());
  save(2);
  EXPECT_EQ(added(f), 1) << "until it is looked at";
  EXPECT_TRUE(watcher.poll());
  EXPECT_EQ(added(f), 2);
  EXPECT_FALSE(watcher.poll());
  EXPECT_THAT(reloads, ElementsAre(watcher.archive().hash()));
  EXPECT_TRUE(errors.empty());
}

TEST_F(RuntimeWatcher, KeepsTheOldOneAndTellsOnce) {
  save(1);
  Watcher watcher(path, options);
  const Function f = watcher["add"];
  spoil();
  EXPECT_FALSE(watcher.poll());
  EXPECT_FALSE(watcher.poll());
  EXPECT_EQ(added(f), 1);
  EXPECT_THAT(errors, ElementsAre(HasSubstr("live.thz")));
  fs::remove(path);
  EXPECT_FALSE(watcher.poll());
  save(3);
  EXPECT_TRUE(watcher.poll());
  EXPECT_EQ(added(f), 3);
}

TEST_F(RuntimeWatcher, KeepsTheFunctionsThatThereAre) {
  save(1);
  Watcher watcher(path, options);
  save(2, "other");
  EXPECT_FALSE(watcher.poll());
  EXPECT_THAT(errors, ElementsAre(HasSubstr("the new file has no function 'add'")));
}

TEST_F(RuntimeWatcher, LooksByItselfAtNoTimeWithTheLongestInterval) {
  options.interval = std::chrono::milliseconds::max();
  save(0);
  Watcher watcher(path, options);
  for (int round = 1; round <= 50; ++round) {
    save(round);
    EXPECT_TRUE(watcher.poll()) << "its own thread was first";
  }
}

TEST_F(RuntimeWatcher, AsksTheCheck) {
  save(1);
  options.check = [](const Archive &archive) {
    if (added(archive["add"]) == 2)
      throw std::runtime_error("two is rejected");
  };
  Watcher watcher(path, options);
  save(2);
  EXPECT_FALSE(watcher.poll());
  EXPECT_THAT(errors, ElementsAre("two is rejected"));
  save(3);
  EXPECT_TRUE(watcher.poll());
}

TEST_F(RuntimeWatcher, LooksAgainAtAFileThatChangesWhileItIsRead) {
  save(1);
  options.check = [this](const Archive &archive) {
    if (added(archive["add"]) == 2) {
      save(3);
      throw std::runtime_error("two is rejected");
    }
  };
  Watcher watcher(path, options);
  save(2);
  EXPECT_FALSE(watcher.poll());
  EXPECT_TRUE(errors.empty());
  EXPECT_TRUE(watcher.poll());
  EXPECT_EQ(added(watcher["add"]), 3);
}

TEST_F(RuntimeWatcher, ReportsWhatItsCallbacksThrow) {
  save(1);
  options.check = [](const Archive &archive) {
    if (added(archive["add"]) == 2)
      throw 2;
  };
  options.on_reload = [](const Archive &) { throw std::runtime_error("after the reload"); };
  Watcher watcher(path, options);
  save(2);
  EXPECT_FALSE(watcher.poll());
  EXPECT_THAT(errors, ElementsAre("an exception that is no std::exception"));
  save(3);
  EXPECT_TRUE(watcher.poll()) << "it has been taken";
  EXPECT_EQ(added(watcher["add"]), 3);
  EXPECT_THAT(errors, ElementsAre(HasSubstr("no std::exception"), "after the reload"));
}

TEST_F(RuntimeWatcher, DropsWhatTheReportThrows) {
  save(1);
  options.on_error = [](const std::string &) { throw std::runtime_error("nobody asked"); };
  Watcher watcher(path, options);
  spoil();
  EXPECT_FALSE(watcher.poll());
}

TEST_F(RuntimeWatcher, ACallbackMayPoll) {
  save(1);
  std::unique_ptr<Watcher> watcher;
  std::vector<bool> inner;
  options.on_reload = [&](const Archive &) { inner.push_back(watcher->poll()); };
  watcher = std::make_unique<Watcher>(path, options);
  save(2);
  EXPECT_TRUE(watcher->poll());
  EXPECT_THAT(inner, ElementsAre(false));
}

TEST_F(RuntimeWatcher, ACallbackMayDestroyIt) {
  save(1);
  std::unique_ptr<Watcher> watcher;
  const auto destroy = [&](const Archive &) { watcher.reset(); };
  options.on_reload = destroy;
  watcher = std::make_unique<Watcher>(path, options);
  save(2);
  EXPECT_TRUE(watcher->poll());
  EXPECT_EQ(watcher, nullptr);

  std::promise<void> destroyed, made;
  options.interval = std::chrono::milliseconds(1);
  options.on_reload = [&](const Archive &) {
    made.get_future().wait();
    watcher.reset();
    destroyed.set_value();
  };
  watcher = std::make_unique<Watcher>(path, options);
  made.set_value();
  save(3);
  destroyed.get_future().wait();
  EXPECT_EQ(watcher, nullptr);
}

TEST_F(RuntimeWatcher, ItsFunctionsOutliveIt) {
  save(1);
  Function f;
  {
    Watcher watcher(path, options);
    f = watcher["add"];
    EXPECT_THROW(watcher["none"], ArchiveError);
  }
  EXPECT_EQ(added(f), 1);
  EXPECT_EQ(f.name(), "add");
}

TEST_F(RuntimeWatcher, LooksByItself) {
  save(1);
  options.interval = std::chrono::milliseconds(1);
  std::promise<void> taken;
  options.on_reload = [&](const Archive &) { taken.set_value(); };
  Watcher watcher(path, options);
  save(2);
  taken.get_future().wait();
  EXPECT_EQ(added(watcher["add"]), 2);
}

TEST_F(RuntimeWatcher, AnArchiveSaysWhatItHas) {
  save(1);
  const auto archive = Archive::load(path);
  EXPECT_THAT(archive.names(), ElementsAre("add"));
  EXPECT_TRUE(archive.contains("add"));
  EXPECT_EQ(archive.path(), path);
  try {
    archive["sub"];
    ADD_FAILURE();
  } catch (const ArchiveError &e) {
    EXPECT_EQ(e.what(), path + " has no function 'sub'; it has add");
  }
  EXPECT_THROW(Archive::load(path, {.device = "nonsense"}), DeviceError);
  EXPECT_THROW(Archive::load((folder / "none.thz").string()), ArchiveError);
  EXPECT_THROW(Archive::load(path, {.device = "cuda:99"}), DeviceError);
}

} // namespace
} // namespace tracehost
