#include "support/entries.h"

#include "tracehost/tracehost.h"

#include <ATen/ATen.h>

#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <thread>

namespace tracehost {
namespace {

/// exit() while four threads call in a loop. Run in a process of its own.
[[noreturn]] void exit_under_load() {
  static test::FakeSink sink;
  static std::atomic<int> calls{0};
  static const auto *const f = new Function(test::loaded(
      {test::graph_for(test::call({{"x", test::tensor(0, test::meta({2}))}}), {at::ones(2)},
                       [](const test::Tensors &in) -> test::Tensors { return {in[0].exp() + 1}; })},
      sink));
  for (int i = 0; i < 4; ++i)
    std::thread([] {
      try {
        for (;; ++calls)
          (*f)(at::ones(2));
      } catch (const Error &) { // the process is ending: no call begins any more
      }
    }).detach();
  while (calls < 20)
    std::this_thread::yield();
  std::exit(3);
}

TEST(RuntimeEndingDeathTest, TheProcessEndsWhileThreadsCall) {
  GTEST_FLAG_SET(death_test_style, "threadsafe"); // not forked: a fork has no threads
  EXPECT_EXIT(exit_under_load(), testing::ExitedWithCode(3), "");
}

} // namespace
} // namespace tracehost
