// Stream capture and graphs.
#include "program.h"

#include <thread>

namespace {

const char* const source = R"(
struct Args { float* to; const float* from; uint64_t n; };
KERNEL(add_into, Args) {
  const uint64_t i = block_x * (uint64_t)block_dim_x + thread_x;
  if (i < args.n) args.to[i] += args.from[i];
}
)";

struct Args {
  float* to;
  const float* from;
  uint64_t n;
};

hipStream_t new_stream(unsigned flags = hipStreamNonBlocking) {
  hipStream_t stream = nullptr;
  must(hipStreamCreateWithFlags(&stream, flags));
  return stream;
}

hipStreamCaptureStatus status_of(hipStream_t stream) {
  hipStreamCaptureStatus status;
  must(hipStreamIsCapturing(stream, &status));
  return status;
}

void begin(hipStream_t stream, hipStreamCaptureMode mode = hipStreamCaptureModeThreadLocal) {
  must(hipStreamBeginCapture(stream, mode));
}

// Captures what `body` gives to the stream, and makes it ready.
template <class Body>
hipGraphExec_t captured(hipStream_t stream, Body&& body) {
  begin(stream);
  body();
  hipGraph_t graph = nullptr;
  must(hipStreamEndCapture(stream, &graph));
  hipGraphExec_t exec = nullptr;
  must(hipGraphInstantiate(&exec, graph, nullptr, nullptr, 0));
  must(hipGraphDestroy(graph));
  return exec;
}

// A call that spoils the capture of a stream.
template <class Call>
void check_spoils(const char* what, hipStream_t stream, hipError_t wanted, Call&& call) {
  begin(stream);
  check_misuse(what, [&] { check_equal(call(), wanted, what); });
  check_equal(status_of(stream), hipStreamCaptureStatusInvalidated, what);
  hipGraph_t graph = nullptr;
  check_equal(hipStreamEndCapture(stream, &graph), hipErrorStreamCaptureInvalidated, what);
  check(graph == nullptr, what);
  check_equal(status_of(stream), hipStreamCaptureStatusNone, what);
  must(hipStreamSynchronize(stream));
}

void a_graph_runs_what_was_captured_as_often_as_it_is_launched() {
  Program program(source);
  Buffer<float> a({1, 2, 3}), b({10, 20, 30}), c({0, 0, 0});
  const hipStream_t stream = new_stream();
  const hipFunction_t add = program.function("add_into");
  const hipGraphExec_t exec = captured(stream, [&] {
    check_equal(status_of(stream), hipStreamCaptureStatusActive, "active");
    must(launch(add, 1, 32, Args{a.data(), b.data(), 3}, stream));
    must(hipMemcpyAsync(c.data(), a.data(), a.bytes(), hipMemcpyDeviceToDevice, stream));
    must(hipMemsetD32Async(c.data() + 2, 0, 1, stream));
  });
  check(a.read() == std::vector<float>({1, 2, 3}), "nothing runs while it is captured");
  for (int i = 0; i < 3; ++i) must(hipGraphLaunch(exec, stream));
  must(hipStreamSynchronize(stream));
  check(a.read() == std::vector<float>({31, 62, 93}), "three launches");
  check(c.read() == std::vector<float>({31, 62, 0}), "copies and fills");
  const hipStream_t other = new_stream();
  must(hipGraphLaunch(exec, other));
  must(hipStreamSynchronize(other));
  check(a.read() == std::vector<float>({41, 82, 123}), "on another stream");
  must(hipGraphExecDestroy(exec));
  must(hipStreamDestroy(other));
  must(hipStreamDestroy(stream));
}

void forbidden_calls_spoil_a_capture() {
  const hipStream_t stream = new_stream();
  Buffer<int> memory({1, 2});
  int host = 0;
  void* ptr = nullptr;
  hipEvent_t event = nullptr, before = nullptr;
  must(hipEventCreateWithFlags(&event, hipEventDisableTiming));
  must(hipEventCreateWithFlags(&before, hipEventDisableTiming));
  must(hipEventRecord(before, stream));
  must(hipStreamSynchronize(stream));
  const auto unsupported = hipErrorStreamCaptureUnsupported;
  check_spoils("hipMalloc", stream, unsupported, [&] { return hipMalloc(&ptr, 4); });
  check_spoils("hipHostMalloc", stream, unsupported, [&] { return hipHostMalloc(&ptr, 4, 0); });
  check_spoils("hipMemcpy", stream, unsupported,
               [&] { return hipMemcpy(&host, memory.data(), 4, hipMemcpyDeviceToHost); });
  check_spoils("hipStreamSynchronize", stream, unsupported, [&] { return hipStreamSynchronize(stream); });
  check_spoils("hipStreamQuery", stream, unsupported, [&] { return hipStreamQuery(stream); });
  check_spoils("hipDeviceSynchronize", stream, unsupported, [&] { return hipDeviceSynchronize(); });
  check_spoils("an event", stream, unsupported, [&] {
    must(hipEventRecord(event, stream));
    return hipEventQuery(event);
  });
  check_equal(hipEventSynchronize(event), hipErrorCapturedEvent, "an event that was captured");
  check_spoils("a wait for work outside", stream, hipErrorStreamCaptureIsolation,
               [&] { return hipStreamWaitEvent(stream, before, 0); });
  begin(stream);
  check_misuse("spoiled", [&] { check_equal(hipMalloc(&ptr, 4), unsupported, "spoiled"); });
  check_equal(hipMemsetAsync(memory.data(), 0, 4, stream), hipErrorStreamCaptureInvalidated, "work after that");
  hipGraph_t graph = nullptr;
  check_equal(hipStreamEndCapture(stream, &graph), hipErrorStreamCaptureInvalidated, "its end");
  check(memory.read() == std::vector<int>({1, 2}), "nothing has run");
  must(hipEventRecord(event, stream));
  must(hipEventSynchronize(event));
  must(hipEventDestroy(event));
  must(hipEventDestroy(before));
  must(hipStreamDestroy(stream));
}

void a_thread_local_capture_leaves_other_threads_alone() {
  const hipStream_t stream = new_stream(), other = new_stream();
  Buffer<int> memory({1, 2});
  const auto elsewhere = [&](hipError_t wanted) {
    std::thread([&] {
      void* ptr = nullptr;
      check_equal(hipMalloc(&ptr, 4), wanted, "allocation in another thread");
      if (ptr) must(hipFree(ptr));
      must(hipMemsetAsync(memory.data(), 0, 4, other));
      must(hipStreamSynchronize(other));
    }).join();
  };
  begin(stream);
  elsewhere(hipSuccess);
  hipGraph_t graph = nullptr;
  std::thread([&] {
    check_misuse("ended elsewhere", [&] {
      check_equal(hipStreamEndCapture(stream, &graph), hipErrorStreamCaptureWrongThread, "ended elsewhere");
    });
  }).join();
  check_equal(hipStreamEndCapture(stream, &graph), hipErrorStreamCaptureInvalidated, "spoiled by that");
  begin(stream, hipStreamCaptureModeGlobal);
  check_misuse("global", [&] { elsewhere(hipErrorStreamCaptureUnsupported); });
  check_equal(hipStreamEndCapture(stream, &graph), hipErrorStreamCaptureInvalidated, "spoiled by another thread");
  must(hipStreamDestroy(other));
  must(hipStreamDestroy(stream));
}

void the_null_stream_does_not_wait_for_a_capture() {
  const hipStream_t blocking = new_stream(hipStreamDefault), free = new_stream();
  Buffer<int> memory({1, 2});
  check_spoils("the null stream", blocking, hipErrorStreamCaptureImplicit,
               [&] { return hipMemsetAsync(memory.data(), 0, 4, nullptr); });
  const hipGraphExec_t exec = captured(free, [&] { must(hipMemsetAsync(memory.data(), 0, 4, nullptr)); });
  must(hipGraphExecDestroy(exec));
  check_equal(hipStreamBeginCapture(nullptr, hipStreamCaptureModeThreadLocal), hipErrorStreamCaptureUnsupported,
              "the null stream cannot be captured");
  must(hipStreamDestroy(blocking));
  must(hipStreamDestroy(free));
}

void handles_are_checked() {
  const hipStream_t stream = new_stream();
  hipGraph_t graph = nullptr;
  check_equal(hipStreamEndCapture(stream, &graph), hipErrorIllegalState, "no capture");
  begin(stream);
  check_equal(hipStreamBeginCapture(stream, hipStreamCaptureModeRelaxed), hipErrorIllegalState, "captured twice");
  must(hipStreamEndCapture(stream, &graph));
  hipGraphExec_t exec = nullptr;
  must(hipGraphInstantiate(&exec, graph, nullptr, nullptr, 0));
  must(hipGraphLaunch(exec, stream));
  must(hipStreamSynchronize(stream));
  must(hipGraphDestroy(graph));
  check_misuse("graph", [&] { check_equal(hipGraphDestroy(graph), hipErrorInvalidHandle, "destroyed twice"); });
  must(hipGraphExecDestroy(exec));
  check_misuse("exec", [&] { check_equal(hipGraphLaunch(exec, stream), hipErrorInvalidHandle, "destroyed"); });
  // A stream may be destroyed while it is captured.
  begin(stream);
  must(hipStreamDestroy(stream));
}

void a_graph_outlives_neither_its_modules_nor_its_own_work() {
  Buffer<float> a({1, 2, 3});
  const hipStream_t stream = new_stream();
  hipGraphExec_t exec = nullptr;
  {
    Program program(source);
    exec = captured(stream, [&] {
      must(launch(program.function("add_into"), 1, 32, Args{a.data(), a.data(), 3}, stream));
    });
  }
  check_misuse("module", [&] { check_equal(hipGraphLaunch(exec, stream), hipErrorInvalidHandle, "unloaded"); });
  must(hipGraphExecDestroy(exec));
  if (on_host_engine()) {
    exec = captured(stream, [&] {
      const auto sleep = [](void*) { std::this_thread::sleep_for(std::chrono::milliseconds(50)); };
      must(hipLaunchHostFunc(stream, sleep, nullptr));
    });
    must(hipGraphLaunch(exec, stream));
    check_misuse("running", [&] { must(hipGraphExecDestroy(exec)); });
  }
  must(hipStreamSynchronize(stream));
  must(hipStreamDestroy(stream));
}

}  // namespace

int main() {
  return run_tests({
      {"a graph runs what was captured as often as it is launched",
       a_graph_runs_what_was_captured_as_often_as_it_is_launched},
      {"forbidden calls spoil a capture", forbidden_calls_spoil_a_capture},
      {"a thread-local capture leaves other threads alone", a_thread_local_capture_leaves_other_threads_alone},
      {"the null stream does not wait for a capture", the_null_stream_does_not_wait_for_a_capture},
      {"handles are checked", handles_are_checked},
      {"a graph outlives neither its modules nor its own work", a_graph_outlives_neither_its_modules_nor_its_own_work},
  });
}
