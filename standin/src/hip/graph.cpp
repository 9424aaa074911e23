// Stream capture and graphs. A captured stream records the work it is given, and a graph is launched as one
// piece of work. Not supported are captures that spread to other streams through events, nodes that are
// created or changed explicitly, and memory allocated inside a graph.
#include "core/live.h"
#include "engine/engine.h"
#include "hip/api.h"
#include "hip/capture.h"
#include "hip/objects.h"

using namespace standin;

namespace {

hipError_t refuse(const char* function) {
  return hip_call(function, hipErrorNotSupported, [] { return hipErrorNotSupported; });
}

hipError_t check_graph(const char* function, hipGraph_t graph) {
  if (live().contains(Kind::Graph, graph)) return hipSuccess;
  misuse("%s: %p is not a live graph", function, static_cast<void*>(graph));
  return hipErrorInvalidHandle;
}

hipError_t check_exec(const char* function, hipGraphExec_t exec) {
  if (live().contains(Kind::GraphExec, exec)) return hipSuccess;
  misuse("%s: %p is not a live instance of a graph", function, static_cast<void*>(exec));
  return hipErrorInvalidHandle;
}

// Checks that no module of the graph's kernels was unloaded.
hipError_t check_functions(const hipGraphExec& exec) {
  for (const hipFunction_t function : exec.functions) {
    if (live().contains(Kind::Function, function)) continue;
    misuse("hipGraphLaunch: kernel %s of the graph belongs to a module that was unloaded", function->name.c_str());
    return hipErrorInvalidHandle;
  }
  return hipSuccess;
}

}  // namespace

extern "C" {

hipError_t hipStreamBeginCapture(hipStream_t stream, hipStreamCaptureMode mode) {
  return hip_call(__func__, hipErrorInvalidValue, [&] {
    StreamTarget target;
    if (const hipError_t error = resolve("hipStreamBeginCapture", stream, &target)) return error;
    if (mode < hipStreamCaptureModeGlobal || mode > hipStreamCaptureModeRelaxed) return hipErrorInvalidValue;
    if (!stream || stream == hipStreamLegacy) return hipErrorStreamCaptureUnsupported;
    if (const hipError_t error = captures().begin(stream, mode)) return error;
    const hipError_t error = engine().begin_capture(*target.engine);
    if (error) captures().forget(stream);
    return error;
  });
}

hipError_t hipStreamEndCapture(hipStream_t stream, hipGraph_t* graph) {
  return hip_call(__func__, hipErrorInvalidValue, [&] {
    if (!graph) return hipErrorInvalidValue;
    *graph = nullptr;
    if (!live().contains(Kind::Stream, stream)) return hipErrorIllegalState;
    auto made = std::make_unique<ihipGraph>();
    made->device = stream->device;
    const hipError_t ended = captures().end(stream, &made->functions);
    if (ended == hipErrorIllegalState || ended == hipErrorStreamCaptureWrongThread) return ended;
    const hipError_t error = engine().end_capture(*stream->engine, &made->engine);
    if (ended || error) return ended ? ended : error;
    live().add(Kind::Graph, made.get(), "of device " + std::to_string(made->device));
    *graph = made.release();
    return hipSuccess;
  });
}

hipError_t hipStreamIsCapturing(hipStream_t stream, hipStreamCaptureStatus* status) {
  return hip_call(__func__, hipErrorInvalidValue, [&] {
    if (!status) return hipErrorInvalidValue;
    *status = captures().status(stream);
    return hipSuccess;
  });
}

hipError_t hipGraphInstantiate(hipGraphExec_t* exec, hipGraph_t graph, hipGraphNode_t*, char*, size_t) {
  return hip_call(__func__, hipErrorOutOfMemory, [&] {
    if (!exec) return hipErrorInvalidValue;
    *exec = nullptr;
    if (const hipError_t error = check_graph("hipGraphInstantiate", graph)) return error;
    if (const hipError_t error = captures().check_unsafe("hipGraphInstantiate")) return error;
    auto made = std::make_unique<hipGraphExec>();
    made->device = graph->device;
    made->functions = graph->functions;
    if (const hipError_t error = made->overhead.take(made->device)) return error;
    if (const hipError_t error = engine().instantiate(*graph->engine, &made->engine)) return error;
    live().add(Kind::GraphExec, made.get(), "of device " + std::to_string(made->device));
    *exec = made.release();
    return hipSuccess;
  });
}

hipError_t hipGraphLaunch(hipGraphExec_t exec, hipStream_t stream) {
  return hip_call(__func__, hipErrorLaunchFailure, [&] {
    if (const hipError_t error = check_exec("hipGraphLaunch", exec)) return error;
    StreamTarget target;
    if (const hipError_t error = resolve("hipGraphLaunch", stream, &target)) return error;
    if (captures().active(stream)) return hipErrorNotSupported;
    if (target.device != exec->device) {
      misuse("hipGraphLaunch: a graph of device %d on a stream of device %d", exec->device, target.device);
      return hipErrorInvalidHandle;
    }
    if (const hipError_t error = check_functions(*exec)) return error;
    return engine().launch(*exec->engine, *target.engine);
  });
}

hipError_t hipGraphDestroy(hipGraph_t graph) {
  return hip_call(__func__, hipErrorInvalidValue, [&] {
    if (const hipError_t error = check_graph("hipGraphDestroy", graph)) return error;
    if (!live().remove(Kind::Graph, graph)) return hipErrorInvalidHandle;
    graph->engine.reset();
    retire(graph);
    return hipSuccess;
  });
}

hipError_t hipGraphExecDestroy(hipGraphExec_t exec) {
  return hip_call(__func__, hipErrorInvalidValue, [&] {
    if (const hipError_t error = check_exec("hipGraphExecDestroy", exec)) return error;
    // AMD's runtime frees the arguments of the graph's kernels here.
    if (engine().is_running(*exec->engine))
      misuse("hipGraphExecDestroy: %p is destroyed while its work is running", static_cast<void*>(exec));
    if (!live().remove(Kind::GraphExec, exec)) return hipErrorInvalidHandle;
    exec->engine.reset();
    exec->overhead.give_back();
    retire(exec);
    return hipSuccess;
  });
}

hipError_t hipGraphExecUpdate(hipGraphExec_t, hipGraph_t, hipGraphNode_t*, hipGraphExecUpdateResult*) {
  return refuse(__func__);
}
hipError_t hipGraphExecKernelNodeSetParams(hipGraphExec_t, hipGraphNode_t, const hipKernelNodeParams*) {
  return refuse(__func__);
}

}  // extern "C"
