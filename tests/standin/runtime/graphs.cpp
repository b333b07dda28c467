#include "runtime.h"

#include <algorithm>

/// Graphs: the nodes of a capture, their executable copy, and what a graph keeps alive.

using namespace standin;

namespace {

/// The object that the caller hands to a graph, with its counted references.
struct UserObject {
  std::shared_ptr<void> held;
};

/// Each node is a piece of work of its own: other streams run between them. `exec` may be destroyed
/// before the queue runs.
Job job_of(const Job &node, const CUgraphExec_st &exec) {
  Job job;
  job.touches = node.touches;
  job.work = [node, kept = exec.kept](Memory &memory) {
    if (!node.on_host || &memory == &device_memory())
      node.work(memory);
  };
  return job;
}

} // namespace

extern "C" {

cudaError_t cudaGraphInstantiate(cudaGraphExec_t *exec, cudaGraph_t graph, unsigned long long) {
  count(Counter::instantiate);
  if (is_to_fail("cudaGraphInstantiate"))
    return fail(cudaErrorInvalidValue, "cudaGraphInstantiate");
  *exec = new CUgraphExec_st{graph->nodes, graph->kept};
  return cudaSuccess;
}

cudaError_t cudaGraphInstantiateWithFlags(cudaGraphExec_t *exec, cudaGraph_t graph,
                                          unsigned long long flags) {
  return cudaGraphInstantiate(exec, graph, flags);
}

cudaError_t cudaGraphLaunch(cudaGraphExec_t exec, cudaStream_t stream) {
  count(Counter::graph_launch);
  if (is_to_fail("cudaGraphLaunch"))
    return fail(cudaErrorInvalidValue, "cudaGraphLaunch");
  for (const Job &node : exec->nodes)
    if (const auto error = launch(stream, Kind::other, job_of(node, *exec)))
      return error;
  return cudaSuccess;
}

cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
  delete graph;
  return cudaSuccess;
}

cudaError_t cudaGraphExecDestroy(cudaGraphExec_t exec) {
  delete exec;
  return cudaSuccess;
}

/// The nodes have no handles: only their number is right.
cudaError_t cudaGraphGetNodes(cudaGraph_t graph, cudaGraphNode_t *nodes, std::size_t *count) {
  if (nodes)
    std::fill_n(nodes, std::min(*count, graph->nodes.size()), nullptr);
  *count = graph->nodes.size();
  return cudaSuccess;
}

cudaError_t cudaUserObjectCreate(cudaUserObject_t *object, void *pointer, cudaHostFn_t destroy,
                                 unsigned, unsigned) {
  auto *made = new UserObject{std::shared_ptr<void>(pointer, destroy)};
  *object = reinterpret_cast<cudaUserObject_t>(made);
  return cudaSuccess;
}

cudaError_t cudaUserObjectRelease(cudaUserObject_t object, unsigned) {
  delete reinterpret_cast<UserObject *>(object);
  return cudaSuccess;
}

/// With cudaGraphUserObjectMove the graph takes the caller's reference.
cudaError_t cudaGraphRetainUserObject(cudaGraph_t graph, cudaUserObject_t object, unsigned,
                                      unsigned flags) {
  auto *given = reinterpret_cast<UserObject *>(object);
  graph->kept.push_back(given->held);
  if (flags & cudaGraphUserObjectMove)
    delete given;
  return cudaSuccess;
}
}
