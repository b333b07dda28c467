#pragma once

#include "capture/device.h"
#include "event/graph_news.h"

#include <ATen/core/stack.h>
#include <torch/csrc/jit/ir/ir.h>

#include <cstddef>
#include <exception>
#include <functional>
#include <memory>
#include <string>

/// CUDA graphs: settled calls of a graph on a device without the interpreter.
///
/// Problem. The host takes 5 to 10 us to launch an op, and a small kernel runs for 2. A CUDA graph
/// has all launches of a call, and one launch starts them. Its kernels have fixed arguments: the
/// addresses of tensors, and every number that the host computed.
///
/// Fast path. A graph has one Entry for each set of sizes, strides and settings (key.h). Its state:
///
///     warming     two calls run on the stream of the capture (entry.cpp)
///     capturing   the next call is captured, replayed once, undone, and run plainly; the replay's
///                 results, writes and draws must equal the plain run's bit by bit (effects.h)
///     ready       a call copies its arguments to the capture's tensors (static_inputs.h), replays,
///                 and copies the outputs out of the capture's pool (results.h)
///
/// Slow path. The interpreter serves a call that another thread's call, a capture of the user's, or
/// a mode stands in the way of. It serves all calls of a graph that can't be captured: an op needs
/// the host (eligible.h), the capture failed, or its first replay differed. describe() says why.
///
/// Data layout. Results of the graph's ops lie in a pool of memory, which the captures of a
/// Function share (pool.h). Tensors that stay where they are, as parameters do, are used in place,
/// and the entry keeps their memory alive. If one has moved, the entry captures again. The graph
/// may write to them (writes.h):
///
///     y = batch_norm(x @ w)      x: copied in. w, running_mean: in place
///     return y                   y: in the pool, copied out
///
/// A training step becomes a list of ops without autograd first (training.h). Its gradients are
/// copied out of the pool, as outputs are.
///
/// Not captured yet: results that need gradients, calls and regions under autocast, a profiler,
/// custom ops, graphs with numbers of the call.

namespace tracehost::capture {

class Pools;

/// What an op of a run threw, and its place in the user's code.
struct Failure {
  std::exception_ptr error;
  std::string place;
};

/// How a graph is run, and on what.
struct Options {
  /// The plain run: consumes the inputs on the stack and leaves the outputs. `captured`: no signal
  /// may end the run.
  std::function<void(torch::jit::Stack &, bool captured)> interpret;
  /// What an op of `interpret` threw last on this thread. Null: it is not known.
  Failure (*take_failure)() = nullptr;
  /// Marks the ops of a block, so that `take_failure` knows what they throw. Null: it knows
  /// nothing.
  void (*complete_places)(torch::jit::Block &) = nullptr;
  /// The user's line of a node, `net.py:12`, or empty. Null: it is not known.
  std::string (*place_of)(const torch::jit::Node &) = nullptr;
  /// The device that captures; null, and `why`: there is none. Asked once.
  std::function<GraphDevice *(std::string &why)> find_device;
  /// Inputs past these are tensors that the body reaches. They are used in place.
  std::size_t arguments = 0;
  /// A graph that launches less is not captured.
  std::size_t least_launches = 8;
  /// Memory that is shared with captures of other graphs; null: it is not.
  std::shared_ptr<Pools> pools;
  /// Receives what happens to captures, without a lock. Empty: nobody asks.
  std::function<void(const GraphNews &)> report;
};

/// The captures of one graph, made as its calls settle: for at most eight keys.
class Captures {
public:
  Captures(const torch::jit::Graph &graph, Options options);
  ~Captures();

  /// Hot. Serves a call whose tensors are on a device. False: the interpreter has to serve it, and
  /// `stack` is as it was. Throws what `interpret` throws. Any thread.
  bool run(torch::jit::Stack &stack);
  /// What serves: `a CUDA graph (41 ops)`, or `the interpreter`, and why.
  std::string describe() const;

private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

} // namespace tracehost::capture
