#include "report/metrics.h"

#include "report/ledger.h"
#include "support/entries.h"

#include "tracehost/metrics.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tracehost::report {
namespace {

TEST(Metrics, AreInThePrometheusFormat) {
  EXPECT_EQ(prometheus({{.function = "step (train.py:12)",
                         .calls = 100,
                         .hits = 90,
                         .traces = 5,
                         .live = 4,
                         .nanoseconds = 1'500'000'000,
                         .retraces_by = {{"shape", 3}, {"value", 1}},
                         .evicted = 2,
                         .eager = 3,
                         .failures = 2,
                         .rejected = 1,
                         .account = {}}}),
            "# HELP tracehost_calls_total Calls, by what served them.\n"
            "# TYPE tracehost_calls_total counter\n"
            "tracehost_calls_total{function=\"step (train.py:12)\",result=\"hit\"} 90\n"
            "tracehost_calls_total{function=\"step (train.py:12)\",result=\"trace\"} 5\n"
            "tracehost_calls_total{function=\"step (train.py:12)\",result=\"eager\"} 3\n"
            "tracehost_calls_total{function=\"step (train.py:12)\",result=\"failed\"} 2\n"
            "tracehost_calls_total{function=\"step (train.py:12)\",result=\"rejected\"} 1\n"
            "# HELP tracehost_trace_seconds_total Time spent in traces.\n"
            "# TYPE tracehost_trace_seconds_total counter\n"
            "tracehost_trace_seconds_total{function=\"step (train.py:12)\"} 1.5\n"
            "# HELP tracehost_retraces_total Traces that calls made again, by cause.\n"
            "# TYPE tracehost_retraces_total counter\n"
            "tracehost_retraces_total{function=\"step (train.py:12)\",cause=\"shape\"} 3\n"
            "tracehost_retraces_total{function=\"step (train.py:12)\",cause=\"value\"} 1\n"
            "# HELP tracehost_evictions_total Graphs that left a full cache.\n"
            "# TYPE tracehost_evictions_total counter\n"
            "tracehost_evictions_total{function=\"step (train.py:12)\"} 2\n"
            "# HELP tracehost_specializations Graphs that can serve a call now.\n"
            "# TYPE tracehost_specializations gauge\n"
            "tracehost_specializations{function=\"step (train.py:12)\"} 4\n");
}

TEST(Metrics, SumTheLeastUsedAsOther) {
  std::vector<Row> rows;
  for (std::uint64_t i = 0; i < 5; ++i)
    rows.push_back({.function = "f" + std::to_string(i), .calls = i, .hits = i, .account = {}});
  const auto text = prometheus(rows, 2);
  EXPECT_THAT(text, testing::HasSubstr("{function=\"f4\",result=\"hit\"} 4"));
  EXPECT_THAT(text, testing::HasSubstr("{function=\"f3\",result=\"hit\"} 3"));
  EXPECT_THAT(text, testing::HasSubstr("{function=\"other\",result=\"hit\"} 3"));
  EXPECT_THAT(text, testing::Not(testing::HasSubstr("f2")));
}

TEST(Metrics, SumRetracesByCause) {
  const std::vector<Row> rows = {
      {.function = "f", .retraces_by = {{"shape", 3}}, .account = {}},
      {.function = "f", .retraces_by = {{"shape", 1}, {"dtype", 2}}, .account = {}}};
  const auto text = prometheus(rows);
  EXPECT_THAT(text, testing::HasSubstr("{function=\"f\",cause=\"dtype\"} 2\n"));
  EXPECT_THAT(text, testing::HasSubstr("{function=\"f\",cause=\"shape\"} 4\n"));
  EXPECT_THAT(prometheus({{.function = "f", .account = {}}}),
              testing::Not(testing::HasSubstr("retraces")));
}

TEST(Metrics, EscapeLabels) {
  EXPECT_THAT(prometheus({{.function = "a\"b\\\n", .account = {}}}),
              testing::HasSubstr("function=\"a\\\"b\\\\\\n\""));
}

TEST(Metrics, CountFunctionsOfArchives) {
  const auto graph =
      test::graph_for(test::call({{"x", test::tensor(0, test::meta({2}))}}), {at::ones(2)},
                      [](const test::Tensors &in) -> test::Tensors { return {in[0] + 1}; });
  archive::Entry entry;
  entry.name = "counted";
  entry.parameters = graph->signature.parameters;
  entry.specializations = {graph};
  const Function f(std::make_shared<runtime::Loaded>(entry, "/models/net.thz", ledger()));
  f(at::ones(2));
  f(at::ones(2));
  EXPECT_THROW(f(at::ones(3)), SignatureError);
  const auto text = metrics_text();
  EXPECT_THAT(text, testing::HasSubstr("{function=\"counted (net.thz)\",result=\"hit\"} 2\n"));
  EXPECT_THAT(text, testing::HasSubstr("{function=\"counted (net.thz)\",result=\"failed\"} 0\n"));
  EXPECT_THAT(text, testing::HasSubstr("{function=\"counted (net.thz)\",result=\"rejected\"} 1\n"));
  ledger().reset();
}

TEST(Metrics, TellArchivesOfOnePathApart) {
  const auto graph =
      test::graph_for(test::call({{"x", test::tensor(0, test::meta({2}))}}), {at::ones(2)},
                      [](const test::Tensors &in) -> test::Tensors { return {in[0] + 1}; });
  archive::Entry entry;
  entry.name = "counted";
  entry.parameters = graph->signature.parameters;
  entry.specializations = {graph};
  const auto loaded = [&](const char *path, const char *hash) {
    return Function(std::make_shared<runtime::Loaded>(entry, path, ledger(), hash));
  };
  const Function before = loaded("/models/net.thz", "00112233445566778899aabbccddeeff"),
                 after = loaded("/models/net.thz", "ffeeddccbbaa99887766554433221100"),
                 copy = loaded("/backup/net.thz", "ffeeddccbbaa99887766554433221100");
  before(at::ones(2));
  after(at::ones(2));
  after(at::ones(2));
  copy(at::ones(2));
  const auto text = metrics_text();
  EXPECT_THAT(text, testing::HasSubstr("{function=\"counted (net.thz)\",archive=\"00112233\","
                                       "result=\"hit\"} 1\n"));
  EXPECT_THAT(text, testing::HasSubstr("{function=\"counted (net.thz)\",archive=\"ffeeddcc\","
                                       "result=\"hit\"} 3\n"))
      << "one label, one sample";
  ledger().reset();
}

} // namespace
} // namespace tracehost::report
