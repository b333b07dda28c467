#include "function/function.h"

/// Function's side of CUDA graphs: its Programs share memory for them, and reports learn of each.

namespace tracehost {
namespace {

void count(Counters &counters, const GraphNews &news) {
  std::atomic<std::uint64_t> &counter = news.what == GraphNews::What::captured ? counters.captured
                                        : news.what == GraphNews::What::rejected
                                            ? counters.uncaptured
                                            : counters.dropped;
  counter.fetch_add(1, std::memory_order_relaxed);
  counters.device_bytes.fetch_add(news.bytes, std::memory_order_relaxed);
}

} // namespace

/// The Program may outlive the Function, but not the sink.
void FunctionCore::on_device(const Signature &signature, ProgramOptions &options) {
  options.on_device = true;
  options.pools = pools_;
  options.on_graph = [counters = counters_, &sink = sink_,
                      signature = text(signature)](const GraphNews &news) {
    count(*counters, news);
    sink.on(GraphEvent{counters, signature, news});
  };
}

} // namespace tracehost
