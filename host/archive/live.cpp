#include "archive/live.h"

#include <utility>

namespace tracehost::archive {

Entry live(SourceFunction function) {
  Entry entry{function.name, std::move(function.parameters), std::move(function.defaults), {}};
  for (Source &source : function.specializations) {
    auto state = std::make_shared<State>();
    for (const CaptureSpec &capture : source.signature.captures)
      state->attributes.push_back(capture.path);
    state->captures = std::move(source.captures);
    state->outputs = std::move(source.output_metas);
    auto made = std::make_shared<Specialization>();
    made->program = source.specialization->program;
    made->signature = std::move(source.signature);
    made->outputs = std::move(source.outputs);
    made->front_end = std::move(state);
    made->number = entry.specializations.size() + 1;
    made->bytes = estimated_bytes(*made);
    entry.specializations.push_back(std::move(made));
  }
  return entry;
}

} // namespace tracehost::archive
