#include "capture/fake_device.h"

#include <ATen/autocast_mode.h>
#include <gmock/gmock.h>

/// What a call gets where a capture fails or is not possible: the plain result, and a reason.

namespace tracehost::capture {
namespace {

using testing::ElementsAre;

constexpr const char *kNegates =
    "graph(%x : Tensor):\n  %y : Tensor = aten::neg(%x)\n  return (%y)";
constexpr const char *kAccumulates = "graph(%x : Tensor, %w : Tensor):\n"
                                     "  %one : int = prim::Constant[value=1]()\n"
                                     "  %v : Tensor = aten::add_(%w, %x, %one)\n"
                                     "  %y : Tensor = aten::neg(%v)\n  return (%y)";

/// Calls from the capture on; each is right.
std::vector<std::string> calls_after_a_failure(Program &f, const std::string &step) {
  const at::Tensor w = at::zeros({3});
  f.settle({at::ones({3}), w}, 2);
  f.device.calls.clear();
  f.device.fails_at[step] = 1;
  for (int i = 3; i <= 5; ++i) {
    EXPECT_TRUE(f.call({at::ones({3}), w}).back().toTensor().equal(at::full({3}, -1. * i))) << i;
    EXPECT_TRUE(w.equal(at::full({3}, 1. * i))) << i;
    EXPECT_FALSE(f.served);
  }
  return f.device.calls;
}

TEST(NotCaptured, ACaptureThatDoesNotBeginOrWhoseOpFails) {
  for (const std::string step : {"begin", "op"}) {
    Program f(kAccumulates);
    EXPECT_THAT(calls_after_a_failure(f, step),
                ElementsAre("s9 waits for s0", "pool 1", "begin on s9", "abandon", "drop 1"));
    EXPECT_EQ(f.captures->describe(), "the interpreter: its capture failed: " + step + " failed");
    EXPECT_EQ(f.device.now, FakeDevice::stream(0));
  }
}

TEST(NotCaptured, ACaptureThatIsBroken) {
  Program f(kAccumulates);
  EXPECT_THAT(calls_after_a_failure(f, "end"),
              ElementsAre("s9 waits for s0", "pool 1", "begin on s9", "end", "abandon", "drop 1"));
  EXPECT_EQ(f.captures->describe(), "the interpreter: its capture failed: end failed");
}

TEST(NotCaptured, AFirstReplayThatFails) {
  Program f(kAccumulates);
  EXPECT_THAT(calls_after_a_failure(f, "replay"),
              ElementsAre("s9 waits for s0", "pool 1", "begin on s9", "end", "replay on s0", "free",
                          "drop 1"));
  EXPECT_EQ(f.captures->describe(), "the interpreter: its first replay failed: replay failed");
}

TEST(NotCaptured, ALaterReplayThatFails) {
  Program f(kAccumulates);
  const at::Tensor x = at::ones({3}), w = at::zeros({3});
  f.settle({x, w}, 4);
  EXPECT_TRUE(f.served);
  f.device.fails_at["replay"] = 1;
  EXPECT_TRUE(f.call({x, w}).back().toTensor().equal(at::full({3}, -5.)));
  EXPECT_FALSE(f.served);
  EXPECT_EQ(f.captures->describe(), "the interpreter: a replay failed: replay failed");
}

TEST(NotCaptured, ACallWithTooLittleMemoryForItsResults) {
  Program f(kAccumulates);
  const at::Tensor x = at::ones({3}), w = at::zeros({3});
  f.settle({x, w}, 4);
  f.device.lacks_memory = true;
  f.device.fails_at["replay"] = 1;
  EXPECT_TRUE(f.call({x, w}).back().toTensor().equal(at::full({3}, -5.)));
  EXPECT_FALSE(f.served);
  EXPECT_TRUE(f.call({x, w}).back().toTensor().equal(at::full({3}, -6.)));
  EXPECT_TRUE(f.served);
  EXPECT_EQ(f.device.count("begin"), 1);
}

TEST(NotCaptured, ACaptureWithTooLittleMemoryIsTriedOnceMore) {
  for (const bool again : {false, true}) {
    Program f(kAccumulates);
    const at::Tensor x = at::ones({3}), w = at::zeros({3});
    f.device.lacks_memory = true;
    f.settle({x, w}, 2);
    for (int i = 3; i <= 6; ++i) {
      if (i == 3 || (i == 4 && again))
        f.device.fails_at["op"] = 1;
      EXPECT_TRUE(f.call({x, w}).back().toTensor().equal(at::full({3}, -1. * i))) << i;
    }
    EXPECT_EQ(f.device.count("free unused"), 1);
    EXPECT_EQ(f.captures->describe(),
              again ? "the interpreter: its capture failed: op has too little memory"
                    : "a CUDA graph (2 ops)");
    EXPECT_EQ(f.device.count("drop"), again ? 2 : 1);
  }
}

TEST(NotCaptured, IsReportedOnce) {
  Program small(kNegates, 1, 8), failing(kNegates);
  small.settle(at::ones({3}), 4);
  EXPECT_THAT(small.news,
              ElementsAre("rejected 0: it launches 1 ops, and a CUDA graph pays from 8 on"));
  failing.device.fails_at["begin"] = 1;
  failing.settle(at::ones({3}), 5);
  EXPECT_THAT(failing.news, ElementsAre("rejected 0: its capture failed: begin failed"));
}

TEST(NotCaptured, AReplayThatFailsIsDroppedAndReported) {
  Program f(kNegates);
  f.settle(at::ones({3}), 3);
  f.device.fails_at["replay"] = 1;
  f.settle(at::ones({3}), 2);
  EXPECT_THAT(f.news, ElementsAre("captured 12", "dropped -12: a replay failed: replay failed",
                                  "rejected 0: a replay failed: replay failed"));
}

TEST(NotCaptured, AFirstReplayThatDiffers) {
  Program f(kAccumulates);
  f.device.replays_wrongly = true;
  const at::Tensor w = at::zeros({3});
  for (int i = 1; i <= 5; ++i)
    EXPECT_TRUE(f.call({at::ones({3}), w}).back().toTensor().equal(at::full({3}, -1. * i))) << i;
  EXPECT_EQ(f.device.count("replay"), 1);
  EXPECT_EQ(f.device.count("drop 1"), 1);
  EXPECT_EQ(f.captures->describe(),
            "the interpreter: the first replay of its capture differs in output 0");
}

TEST(NotCaptured, AFirstReplayThatWritesSomethingElse) {
  Program f(kAccumulates);
  const at::Tensor w = at::zeros({3});
  f.device.in_replay = [&w] { w.add_(1); };
  for (int i = 1; i <= 5; ++i)
    EXPECT_TRUE(f.call({at::ones({3}), w}).back().toTensor().equal(at::full({3}, -1. * i))) << i;
  EXPECT_TRUE(w.equal(at::full({3}, 5.)));
  EXPECT_EQ(f.captures->describe(),
            "the interpreter: the first replay of its capture differs in output 0");
}

TEST(NotCaptured, AWriteThatDiffersAlone) {
  Program f("graph(%x : Tensor, %w : Tensor):\n  %one : int = prim::Constant[value=1]()\n"
            "  %v : Tensor = aten::add_(%w, %x, %one)\n  %y : Tensor = aten::neg(%x)\n"
            "  return (%y)");
  const at::Tensor w = at::zeros({3});
  f.device.in_replay = [&w] { w.add_(1); };
  f.settle({at::ones({3}), w}, 5);
  EXPECT_TRUE(w.equal(at::full({3}, 5.)));
  EXPECT_EQ(f.captures->describe(),
            "the interpreter: the first replay of its capture differs in input 1");
}

TEST(NotCaptured, ACallThatRaisesRaises) {
  Program f("graph(%x : Tensor, %i : Tensor):\n  %z : int = prim::Constant[value=0]()\n"
            "  %y : Tensor = aten::index_select(%x, %z, %i)\n  return (%y)",
            2);
  const at::Tensor x = at::ones({3});
  const at::Tensor good = at::zeros({1}, at::kLong), bad = at::full({1}, 9, at::kLong);
  EXPECT_ANY_THROW(f.call({x, bad}));
  EXPECT_EQ(f.device.now, FakeDevice::stream(0));
  EXPECT_EQ(f.device.calls.back(), "s0 waits for s9");
  f.settle({x, good}, 2);
  EXPECT_TRUE(f.served);
}

TEST(NotCaptured, AnOpThatNeedsTheHost) {
  Program f("graph(%x : Tensor):\n  %y : Tensor = aten::nonzero(%x)\n  return (%y)");
  f.settle(at::ones({3}), 4);
  EXPECT_FALSE(f.served);
  EXPECT_EQ(f.plain, 0);
  EXPECT_TRUE(f.device.calls.empty());
  EXPECT_EQ(f.captures->describe(),
            "the interpreter: aten::nonzero waits for the device at net.py:12");
}

TEST(NotCaptured, AGraphThatLaunchesLittle) {
  Program f(kNegates, 1, 8);
  f.settle(at::ones({3}), 4);
  EXPECT_FALSE(f.served);
  EXPECT_EQ(f.captures->describe(),
            "the interpreter: it launches 1 ops, and a CUDA graph pays from 8 on");
}

TEST(NotCaptured, NoDevice) {
  Program f(kNegates);
  f.no_device = "libtracehost_cuda.so is missing";
  f.settle(at::ones({3}), 4);
  EXPECT_FALSE(f.served);
  EXPECT_EQ(f.captures->describe(), "the interpreter: libtracehost_cuda.so is missing");
}

TEST(NotCaptured, UnderACaptureOfTheCallers) {
  Program f(kNegates);
  f.device.captures_elsewhere = true;
  f.settle(at::ones({3}), 4);
  EXPECT_FALSE(f.served);
  EXPECT_EQ(f.captures->describe(), "the interpreter: the caller captures");
  f.device.captures_elsewhere = false;
  f.settle(at::ones({3}), 4);
  EXPECT_TRUE(f.served);
  f.device.captures_elsewhere = true;
  f.settle(at::ones({3}), 1);
  EXPECT_FALSE(f.served);
}

TEST(NotCaptured, WithoutTheCachingAllocator) {
  Program f(kNegates);
  f.device.pools = false;
  f.settle(at::ones({3}), 4);
  EXPECT_EQ(f.captures->describe(), "the interpreter: the device's caching allocator is disabled");
}

TEST(NotCaptured, CallsThatRecordGradients) {
  Program f(kNegates);
  const at::Tensor x = at::ones({3}).requires_grad_();
  for (int i = 0; i < 4; ++i)
    EXPECT_TRUE(f.call(x).requires_grad());
  EXPECT_EQ(f.captures->describe(), "the interpreter: its results need gradients");
  EXPECT_TRUE(f.device.calls.empty());
  const at::NoGradGuard no_grad;
  f.settle(jit::Stack{x}, 4);
  EXPECT_TRUE(f.served);
}

TEST(NotCaptured, ModesAroundTheCall) {
  Program f(kNegates);
  at::autocast::set_autocast_enabled(at::kCPU, true);
  f.settle(at::ones({3}), 4);
  at::autocast::set_autocast_enabled(at::kCPU, false);
  EXPECT_FALSE(f.served);
  EXPECT_EQ(f.captures->describe(), "the interpreter: autocast, a profiler or a mode is on");
}

TEST(NotCaptured, SparseInputs) {
  Program f(kNegates);
  f.settle(at::eye(3).to_sparse(), 4);
  EXPECT_FALSE(f.served);
  EXPECT_EQ(f.captures->describe(), "the interpreter: an input is no plain tensor");
}

TEST(NotCaptured, OutputsThatAreNoTensors) {
  Program f("graph(%x : Tensor):\n  %y : Tensor = aten::neg(%x)\n"
            "  %l : Tensor[] = prim::ListConstruct(%y)\n  return (%l)");
  f.settle(jit::Stack{at::ones({3})}, 4);
  EXPECT_FALSE(f.served);
  EXPECT_EQ(f.captures->describe(), "the interpreter: output 0 is no tensor");
}

} // namespace
} // namespace tracehost::capture
