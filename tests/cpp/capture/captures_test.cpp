#include "capture/fake_device.h"

#include <ATen/CPUGeneratorImpl.h>
#include <c10/core/InferenceMode.h>
#include <gmock/gmock.h>

#include <thread>

/// Each edge of a capture's state machine, on a fake device.

namespace tracehost::capture {
namespace {

using testing::ElementsAre;

std::string doubles() {
  return "graph(%x : Tensor):\n  %one : int = prim::Constant[value=1]()\n"
         "  %y : Tensor = aten::add(%x, %x, %one)\n  return (%y)";
}
/// Adds the parameter.
constexpr const char *kAdds = "graph(%x : Tensor, %w : Tensor):\n"
                              "  %one : int = prim::Constant[value=1]()\n"
                              "  %y : Tensor = aten::add(%x, %w, %one)\n  return (%y)";
/// Writes to the parameter, and returns the old value.
constexpr const char *kCounts = "graph(%x : Tensor, %w : Tensor):\n"
                                "  %one : int = prim::Constant[value=1]()\n"
                                "  %y : Tensor = aten::neg(%w)\n"
                                "  %v : Tensor = aten::add_(%w, %x, %one)\n  return (%y)";

TEST(Captures, TwoWarmRunsThenACaptureThenReplays) {
  Program f(doubles());
  EXPECT_EQ(f.captures->describe(), "the interpreter");
  for (int i = 1; i <= 6; ++i) {
    const at::Tensor x = at::full({3}, 1. * i);
    EXPECT_TRUE(f.call(x).equal(x * 2)) << i;
    EXPECT_TRUE(f.served);
  }
  EXPECT_EQ(f.captures->describe(), "a CUDA graph (1 ops)");
  EXPECT_EQ(f.plain, 3); // two warm runs, and the one that the first replay was compared with
  EXPECT_THAT(f.device.calls,
              ElementsAre("s9 waits for s0", "s0 waits for s9", "result used on s0",         //
                          "s9 waits for s0", "s0 waits for s9", "result used on s0",         //
                          "s9 waits for s0", "pool 1", "begin on s9", "end", "replay on s0", //
                          "replay on s0", "replay on s0", "replay on s0"));
}

TEST(Captures, ResultsAreNotOverwritten) {
  Program f(doubles());
  f.settle(at::ones({3}));
  const at::Tensor first = f.call(at::full({3}, 1.)), second = f.call(at::full({3}, 2.));
  EXPECT_TRUE(first.equal(at::full({3}, 2.)));
  EXPECT_TRUE(second.equal(at::full({3}, 4.)));
}

TEST(Captures, AnInputThatStaysIsUsedInPlace) {
  Program f(doubles());
  const at::Tensor x = at::ones({3});
  f.settle(jit::Stack{x});
  x.fill_(7);
  EXPECT_TRUE(f.call(x).equal(at::full({3}, 14.)));
  EXPECT_EQ(f.device.count("begin"), 1);
}

TEST(Captures, AnArgumentThatMovesLaterIsCopiedAfterOneMoreCapture) {
  Program f(doubles());
  const at::Tensor x = at::ones({3});
  f.settle(jit::Stack{x});
  for (int i = 1; i <= 30; ++i)
    EXPECT_TRUE(f.call(at::full({3}, 1. * i)).equal(at::full({3}, 2. * i)));
  EXPECT_EQ(f.device.count("begin"), 2);
  EXPECT_EQ(f.device.count("drop 1"), 1);
  EXPECT_EQ(f.captures->describe(), "a CUDA graph (1 ops)");
}

TEST(Captures, AParameterThatMovesMoreThanThreeTimesInTwentyCallsIsCopied) {
  Program f(kAdds);
  const at::Tensor x = at::ones({3});
  f.settle({x, at::zeros({3})});
  std::vector<at::Tensor> kept;
  for (int i = 1; i <= 6; ++i) {
    kept.push_back(at::full({3}, 1. * i)); // each is elsewhere
    EXPECT_TRUE(f.call({x, kept.back()}).back().toTensor().equal(x + i));
    EXPECT_TRUE(f.served);
  }
  EXPECT_EQ(f.device.count("begin"), 5);
  EXPECT_EQ(f.device.count("free"), 4);
  EXPECT_EQ(f.captures->describe(), "a CUDA graph (1 ops)");
}

TEST(Captures, AStateThatIsBoundAgainByEachCallIsCopied) {
  Program f(kAdds);
  at::Tensor state = at::zeros({3});
  for (int i = 1; i <= 8; ++i) {
    state = f.call({at::ones({3}), state}).back().toTensor();
    EXPECT_TRUE(state.equal(at::full({3}, 1. * i))) << i;
    EXPECT_TRUE(f.served);
  }
  EXPECT_EQ(f.device.count("begin"), 1);
}

TEST(Captures, AParameterMayMoveNowAndThen) {
  Program f(kAdds);
  const at::Tensor x = at::ones({3});
  std::vector<at::Tensor> kept;
  for (int i = 0; i < 6; ++i) {
    kept.push_back(at::full({3}, 1. * i));
    for (int call = 0; call < 10; ++call)
      EXPECT_TRUE(f.call({x, kept.back()}).back().toTensor().equal(x + i));
  }
  EXPECT_EQ(f.device.count("begin"), 6);
  EXPECT_EQ(f.captures->describe(), "a CUDA graph (1 ops)");
}

TEST(Captures, TheMemoryOfAParameterIsKept) {
  Program f(kAdds);
  at::Tensor w = at::ones({3});
  const c10::weak_intrusive_ptr<c10::StorageImpl> memory(w.storage().getWeakStorageImpl());
  const at::Tensor x = at::ones({3});
  f.settle({x, w});
  w.set_data(at::ones({3})); // another address
  EXPECT_FALSE(memory.expired());
  f.call({x, w});
  EXPECT_TRUE(memory.expired());
}

TEST(Captures, TheMemoryOfArgumentsIsNotKeptWithoutACapture) {
  Program f(doubles());
  f.device.fails_at["begin"] = 1;
  for (int i = 0; i < 5; ++i) {
    std::optional<c10::weak_intrusive_ptr<c10::StorageImpl>> memory;
    {
      const at::Tensor x = at::ones({3});
      memory = x.storage().getWeakStorageImpl();
      f.call(x);
    }
    EXPECT_TRUE(memory->expired()) << i;
  }
  EXPECT_EQ(f.captures->describe(), "the interpreter: its capture failed: begin failed");
}

TEST(Captures, WritesToAParameterHappenOnceACall) {
  Program f(kCounts);
  const at::Tensor x = at::ones({3}), w = at::zeros({3}), plain = at::zeros({3});
  for (int i = 0; i < 8; ++i) {
    EXPECT_TRUE(f.call({x.clone(), w}).back().toTensor().equal(at::full({3}, -i))) << i;
    EXPECT_TRUE(w.equal(at::full({3}, i + 1.))) << i;
    plain.add_(1);
  }
  EXPECT_EQ(f.captures->describe(), "a CUDA graph (2 ops)");
  EXPECT_GE(w._version(), plain._version());
  const auto before = w._version();
  f.call({x.clone(), w});
  EXPECT_EQ(w._version(), before + 1);
}

TEST(Captures, AnArgumentThatIsWrittenIsCopiedBack) {
  Program f(kCounts, 2);
  const at::Tensor x = at::ones({3});
  for (int i = 0; i < 6; ++i) {
    const at::Tensor w = at::full({3}, 1. * i);
    EXPECT_TRUE(f.call({x, w}).back().toTensor().equal(at::full({3}, -i)));
    EXPECT_TRUE(w.equal(at::full({3}, i + 1.)));
    EXPECT_EQ(w._version(), 2); // fill and add
  }
  EXPECT_EQ(f.captures->describe(), "a CUDA graph (2 ops)");
}

TEST(Captures, RunningStatisticsAreWritten) {
  Program f("graph(%x : Tensor, %m : Tensor, %v : Tensor):\n"
            "  %none : None = prim::Constant()\n  %t : bool = prim::Constant[value=1]()\n"
            "  %a : float = prim::Constant[value=0.1]()\n"
            "  %y : Tensor = aten::batch_norm(%x, %none, %none, %m, %v, %t, %a, %a, %t)\n"
            "  return (%y)");
  const at::Tensor m = at::zeros({2}), v = at::ones({2}), m2 = m.clone(), v2 = v.clone();
  for (int i = 0; i < 6; ++i) {
    const at::Tensor x = at::randn({5, 2});
    const at::Tensor y = f.call({x, m, v}).back().toTensor();
    EXPECT_TRUE(y.equal(at::batch_norm(x, {}, {}, m2, v2, true, .1, .1, true)));
    EXPECT_TRUE(m.equal(m2) && v.equal(v2)) << i;
  }
  EXPECT_EQ(f.captures->describe(), "a CUDA graph (1 ops)");
}

TEST(Captures, InferenceMode) {
  Program f(kCounts);
  const at::Tensor w = at::zeros({3}); // of the time before
  const c10::InferenceMode mode;
  const at::Tensor v = at::zeros({3});
  for (const at::Tensor &parameter : {w, v})
    for (int i = 0; i < 6; ++i) {
      EXPECT_TRUE(
          f.call({at::ones({3}), parameter}).back().toTensor().equal(at::full({3}, -1. * i)));
      EXPECT_TRUE(parameter.equal(at::full({3}, i + 1.))) << i;
    }
  EXPECT_EQ(f.captures->describe(), "a CUDA graph (2 ops)");
  EXPECT_EQ(f.device.count("begin"), 2);
}

TEST(Captures, WritesThroughAListAreUndoneAfterTheFirstReplay) {
  Program f("graph(%x : Tensor, %w : Tensor):\n  %one : int = prim::Constant[value=1]()\n"
            "  %l : Tensor[] = prim::ListConstruct(%w)\n  aten::_foreach_add_(%l, %one)\n"
            "  %y : Tensor = aten::add(%x, %w, %one)\n  return (%y)");
  const at::Tensor w = at::zeros({3});
  for (int i = 1; i <= 6; ++i)
    EXPECT_TRUE(f.call({at::ones({3}), w}).back().toTensor().equal(at::full({3}, 1. + i))) << i;
  EXPECT_TRUE(w.equal(at::full({3}, 6.)));
  EXPECT_EQ(f.captures->describe(), "a CUDA graph (2 ops)");
}

TEST(Captures, DrawsAreThoseOfPlainRuns) {
  const std::string text = "graph(%x : Tensor):\n  %n : None = prim::Constant()\n"
                           "  %y : Tensor = aten::bernoulli(%x, %n)\n  return (%y)";
  Program f(text);
  const at::Tensor x = at::full({50}, .5);
  at::manual_seed(3);
  std::vector<at::Tensor> drawn;
  for (int i = 0; i < 6; ++i)
    drawn.push_back(f.call(x));
  at::manual_seed(3);
  for (const at::Tensor &t : drawn)
    EXPECT_TRUE(t.equal(at::bernoulli(x)));
  EXPECT_EQ(f.captures->describe(), "a CUDA graph (1 ops)");
}

TEST(Captures, EachSetOfSizesHasACapture) {
  Program f(doubles());
  for (int size = 1; size <= 8; ++size)
    f.settle(at::ones({size}));
  for (int size = 1; size <= 8; ++size)
    EXPECT_TRUE(f.call(at::ones({size})).equal(at::full({size}, 2.)));
  EXPECT_EQ(f.device.count("begin"), 8);
  EXPECT_EQ(f.device.count("drop"), 0);
}

TEST(Captures, TheNinthTakesThePlaceOfTheOneUnusedForLongest) {
  Program f(doubles());
  for (int size = 1; size <= 9; ++size)
    f.settle(at::ones({size}));
  EXPECT_EQ(f.device.count("free"), 1);
  EXPECT_EQ(f.device.count("drop"), 0); // the eight share the pool
  f.captures.reset();
  EXPECT_EQ(f.device.count("free"), 9);
  EXPECT_EQ(f.device.count("drop"), 1);
}

TEST(Captures, SizesThatComeAndGoHaveThirtyTwoEntries) {
  Program f(doubles());
  for (int size = 1; size <= 40; ++size)
    f.settle(at::ones({size}));
  EXPECT_EQ(f.device.count("begin"), 32);
  EXPECT_FALSE(f.served);
  EXPECT_EQ(f.captures->describe(), "the interpreter: calls had 32 sets of sizes");
}

TEST(Captures, StridesAndDtypesAreKeys) {
  Program f(doubles());
  f.settle(at::ones({4, 4}));
  const at::Tensor x = at::rand({4, 4}).t();
  EXPECT_TRUE(f.call(x).equal(x * 2));
  EXPECT_EQ(f.device.count("replay"), 1); // of the first key
  EXPECT_TRUE(f.call(at::ones({4, 4}, at::kLong)).equal(at::full({4, 4}, 2)));
  EXPECT_EQ(f.device.count("replay"), 1);
}

TEST(Captures, SettingsOfKernelsAreKeys) {
  Program f(doubles());
  f.settle(at::ones({3}));
  at::globalContext().setBenchmarkCuDNN(true);
  f.call(at::ones({3}));
  at::globalContext().setBenchmarkCuDNN(false);
  EXPECT_EQ(f.device.count("replay"), 1);
  f.call(at::ones({3}));
  EXPECT_EQ(f.device.count("replay"), 2);
}

TEST(Captures, AnInputThatRepeatsItself) {
  Program f(doubles());
  for (int i = 0; i < 5; ++i) {
    const at::Tensor x = at::rand({3}).unsqueeze(1).expand({3, 4});
    EXPECT_TRUE(f.call(x).equal(x * 2));
  }
  EXPECT_EQ(f.captures->describe(), "a CUDA graph (1 ops)");
}

TEST(Captures, OnlyOutputsThatAreTheCallersOwnAreViews) {
  Program f("graph(%x : Tensor, %w : Tensor):\n  %n : int = prim::Constant[value=1]()\n"
            "  %z : int = prim::Constant[value=0]()\n"
            "  %v : Tensor = aten::select(%x, %z, %n)\n  %y : Tensor = aten::neg(%x)\n"
            "  %p : Tensor = aten::select(%y, %z, %n)\n  %u : Tensor = aten::t(%w)\n"
            "  return (%x, %v, %y, %p, %y, %u)");
  const at::Tensor w = at::rand({2, 3});
  for (int i = 0; i < 5; ++i) {
    const at::Tensor x = at::rand({3, 2});
    const jit::Stack r = f.call({x, w});
    const auto at = [&r](int k) { return r[static_cast<std::size_t>(k)].toTensor(); };
    EXPECT_TRUE(at(0).is_same(x));
    EXPECT_TRUE(at(1).is_alias_of(x) && at(1).equal(x[1]));
    EXPECT_TRUE(at(2).equal(-x) && at(3).equal(-x[1]) && at(3).is_alias_of(at(2)));
    EXPECT_TRUE(at(4).is_same(at(2)));
    EXPECT_TRUE(at(5).is_alias_of(w) && at(5).equal(w.t()));
  }
  EXPECT_EQ(f.captures->describe(), "a CUDA graph (1 ops)");
}

TEST(Captures, AnotherStreamWaitsForTheLastReplay) {
  Program f(doubles());
  f.settle(at::ones({3}));
  f.device.calls.clear();
  f.device.now = FakeDevice::stream(2);
  f.call(at::ones({3}));
  f.call(at::ones({3}));
  EXPECT_THAT(f.device.calls, ElementsAre("s2 waits for s0", "replay on s2", "replay on s2"));
  f.device.calls.clear();
  f.captures.reset();
  EXPECT_THAT(f.device.calls, ElementsAre("s0 waits for s2", "free", "drop 1"));
}

TEST(Captures, AThreadThatFindsTheCaptureTakenRunsPlainly) {
  Program f(doubles());
  f.settle(at::ones({3}));
  bool served = true;
  f.device.in_replay = [&] {
    f.device.in_replay = nullptr;
    std::thread([&] {
      jit::Stack stack{at::ones({3})};
      served = f.captures->run(stack);
      EXPECT_EQ(stack.size(), 1U);
    }).join();
  };
  f.call(at::ones({3}));
  EXPECT_TRUE(f.served);
  EXPECT_FALSE(served);
}

TEST(Captures, AThreadThatHasNotRunTheGraphWarmsItself) {
  Program f(doubles());
  const at::Tensor x = at::ones({3});
  f.settle(jit::Stack{x}, 2);
  std::thread([&] {
    f.call(x);
    EXPECT_EQ(f.device.count("begin"), 0);
    f.call(x);
  }).join();
  EXPECT_EQ(f.device.count("begin"), 1);
  EXPECT_TRUE(f.call(x).equal(x * 2));
  EXPECT_EQ(f.device.count("replay"), 2);
}

TEST(Captures, ThreadsThatTakeTurnsCaptureAfterAll) {
  Program f(doubles());
  const at::Tensor x = at::ones({3});
  for (int turn = 0; turn < 2; ++turn) {
    std::thread([&] { EXPECT_TRUE(f.call(x).equal(x * 2)); }).join();
    EXPECT_TRUE(f.call(x).equal(x * 2));
  }
  EXPECT_EQ(f.device.count("begin"), 1);
}

TEST(Captures, GraphsOfAFunctionShareAPool) {
  const auto pools = std::make_shared<Pools>();
  Program f(doubles(), 1, 1, pools), g(doubles(), 1, 1, pools);
  f.settle(at::ones({3}));
  EXPECT_EQ(f.device.count("pool"), 1);
  bool served = true;
  f.device.in_replay = [&] { // what g computes would lie in the same memory
    f.device.in_replay = nullptr;
    f.call(at::ones({2}));
    jit::Stack stack{at::ones({3})};
    served = f.captures->run(stack);
  };
  f.call(at::ones({3}));
  EXPECT_FALSE(served);
}

TEST(Captures, ReplaysOfAPoolAreInOneOrder) {
  Program f(doubles());
  f.settle(at::ones({3}));
  f.settle(at::ones({4}));
  f.device.calls.clear();
  f.call(at::ones({3}));
  f.device.now = FakeDevice::stream(2);
  f.call(at::ones({4}));
  f.device.now = FakeDevice::stream(0);
  f.call(at::ones({3}));
  EXPECT_THAT(f.device.calls, ElementsAre("replay on s0", "s2 waits for s0", "replay on s2",
                                          "s0 waits for s2", "replay on s0"));
}

TEST(Captures, ThePoolOfTheLastCaptureIsNotUsedAgain) {
  Program f(kAdds);
  const at::Tensor x = at::ones({3});
  at::Tensor w = at::zeros({3}), v = at::zeros({3});
  f.settle({x, w});
  f.call({x, v}); // captures again
  EXPECT_EQ(f.device.count("drop 1"), 1);
  EXPECT_EQ(f.device.count("pool 2"), 1);
}

TEST(Captures, EachIsReported) {
  Program f(doubles());
  f.device.pool_bytes = 1000;
  f.settle(at::ones({3}));
  f.device.pool_bytes = 1500;
  f.settle(at::ones({4}));
  EXPECT_THAT(f.news, ElementsAre("captured 1012", "captured 516"));
  f.news.clear();
  f.captures.reset();
  EXPECT_THAT(f.news, ElementsAre("dropped -16: nothing uses it any more",
                                  "dropped -1512: nothing uses it any more"));
}

TEST(Captures, WarmRunsAndTheFirstReplayDoNotBreakCapturesOfOthers) {
  Program f(kCounts);
  f.settle({at::ones({3}), at::ones({3})}, 2);
  EXPECT_EQ(f.device.unbreaking, 2); // the warm runs
  f.call({at::ones({3}), at::ones({3})});
  EXPECT_EQ(f.device.unbreaking, 4);
  EXPECT_TRUE(f.device.breaking);
}

TEST(Captures, TwoGraphsAreNotCapturedAtOnce) {
  Program f(doubles()), g(doubles()), warms(doubles());
  f.settle(at::ones({3}), 2);
  g.settle(at::ones({3}), 2);
  f.device.in_replay = [&] { // the first replay belongs to the capture
    f.device.in_replay = nullptr;
    g.call(at::ones({3}));
    EXPECT_FALSE(g.served);
    warms.call(at::ones({3})); // on the stream of the capture
    EXPECT_FALSE(warms.served);
  };
  f.call(at::ones({3}));
  EXPECT_TRUE(f.served);
  g.call(at::ones({3}));
  EXPECT_TRUE(g.served);
}

TEST(Captures, InputsThatShareMemoryWithAWrittenOneAreForTheInterpreter) {
  Program f(kCounts);
  const at::Tensor w = at::ones({3});
  f.settle({at::ones({3}), w});
  f.call({at::ones({3}), w});
  EXPECT_TRUE(f.served);
  EXPECT_TRUE(f.call({w, w}).back().toTensor().equal(at::full({3}, -5.)));
  EXPECT_TRUE(w.equal(at::full({3}, 10.)));
}

} // namespace
} // namespace tracehost::capture
