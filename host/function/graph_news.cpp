#include "function/function.h"

/// Function's side of tapes and CUDA graphs: its Programs share memory for CUDA graphs, and reports
/// learn of each.

namespace tracehost {
namespace {

void count(Counters &counters, const GraphNews &news) {
  switch (news.what) {
  case GraphNews::What::captured:
    counters.captured.fetch_add(1, std::memory_order_relaxed);
    break;
  case GraphNews::What::rejected:
    counters.uncaptured.fetch_add(1, std::memory_order_relaxed);
    break;
  case GraphNews::What::dropped:
    counters.dropped.fetch_add(1, std::memory_order_relaxed);
    break;
  case GraphNews::What::taped:
  case GraphNews::What::no_tape:
  case GraphNews::What::untaped:
    return;
  }
  counters.device_bytes.fetch_add(news.bytes, std::memory_order_relaxed);
}

} // namespace

/// The Program may outlive the Function, but not the sink.
void FunctionCore::optimize(const Signature &signature, ProgramOptions &options) {
  options.optimize = counters_->identity.optimize;
  if (options.optimize == Optimize::off)
    return;
  options.on_device = is_on_device(signature);
  if (options.on_device)
    options.pools = pools_;
  options.on_graph = [counters = counters_, &sink = sink_,
                      signature = text(signature)](const GraphNews &news) {
    count(*counters, news);
    sink.on(GraphEvent{counters, signature, news});
  };
}

} // namespace tracehost
