#include "support/entries.h"

#include "tracehost/tracehost.h"

#include <ATen/ATen.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <mutex>
#include <stdexcept>
#include <string>
#include <vector>

namespace tracehost {
namespace {

using test::call;
using test::graph_for;
using test::meta;
using test::tensor;
using test::Tensors;
using testing::ElementsAre;
using testing::StartsWith;

/// Collects what is logged while it lives.
class RuntimeLog : public testing::Test {
protected:
  RuntimeLog() {
    set_log([this](const LogRecord &record) {
      const std::lock_guard lock(mutex);
      EXPECT_THAT(std::string(record.message), StartsWith(std::string(record.source)));
      levels.push_back(record.level);
      messages.emplace_back(record.message.substr(0, record.message.find('\n')));
    });
  }
  ~RuntimeLog() override { set_log({}); }

  std::mutex mutex;
  std::vector<LogLevel> levels;
  std::vector<std::string> messages;
  test::FakeSink sink;
  Function picks = test::loaded(
      {graph_for(
          call({{"i", tensor(0, meta({1}, at::kLong))}}), {at::zeros(1, at::kLong)},
          [](const Tensors &in) -> Tensors { return {at::arange(3).index_select(0, in[0])}; })},
      sink);
};

TEST_F(RuntimeLog, HasRejectedCallsSeldomer) {
  for (int i = 0; i < 5; ++i)
    EXPECT_THROW(picks(1.5), SignatureError);
  const std::string line = "f: none of 1 graph serves this call.";
  EXPECT_THAT(messages, ElementsAre(line, line, line)); // the 1st, 2nd and 4th
  EXPECT_THAT(levels, testing::Each(LogLevel::warning));
}

TEST_F(RuntimeLog, HasFailedCallsSeldomer) {
  for (int i = 0; i < 3; ++i)
    EXPECT_THROW(picks(at::full(1, 9, at::kLong)), OpError);
  EXPECT_THAT(messages, ElementsAre("f: a call has failed (1 so far): index out of range in self",
                                    "f: a call has failed (2 so far): index out of range in self"));
}

TEST_F(RuntimeLog, HasBatchesThatRunOneByOne) {
  Batcher batched(picks, 2, std::chrono::hours(1));
  auto a = batched.async(at::full(1, 2, at::kLong)), b = batched.async(at::full(1, 1, at::kLong));
  a.get(), b.get();
  EXPECT_THAT(messages,
              testing::Contains("f: a batch of 2 requests failed, they run one by one: f: none of "
                                "1 graph serves this call."));
}

TEST_F(RuntimeLog, WhatTheReceiverThrowsIsDropped) {
  set_log([](const LogRecord &) { throw std::runtime_error("full"); });
  EXPECT_THROW(picks(1.5), SignatureError);
}

TEST_F(RuntimeLog, MayBeReplacedInACallback) {
  set_log([](const LogRecord &) { set_log({}); });
  EXPECT_THROW(picks(1.5), SignatureError);
  EXPECT_THROW(picks(1.5), SignatureError);
}

TEST(RuntimeErrorCode, HasAText) {
  EXPECT_STREQ(text(ErrorCode::deadline), "deadline");
  EXPECT_EQ(DeviceError("no").code(), ErrorCode::device);
  EXPECT_EQ(Error("no").code(), ErrorCode::other);
}

} // namespace
} // namespace tracehost
