// Misuse by a caller or a kernel is detected and reported, and leaves the device usable.
#include "program.h"

#include <spawn.h>
#include <sys/wait.h>
#include <cstring>
#include <thread>

#include "rocblas_api.h"

namespace {

struct Args {
  int* out;
  int n;
};

const char* const source = R"(
struct Args { int* out; int n; };
KERNEL(write_at, Args) { args.out[args.n] = 1; }
KERNEL(divide, Args) { args.out[0] = 7 / args.n; }
KERNEL(read_at, Args) { args.out[0] = args.out[args.n]; }
KERNEL(trap, Args) { if (thread_x == 1) __builtin_trap(); }
KERNEL(barrier_in_half_a_wave, Args) { if (thread_x % 2) barrier(); else shuffle(1.f, 0); }
KERNEL(shuffle_or_ballot, Args) { if (thread_x % 2) (void)ballot(1); else (void)shuffle(1.f, 0); }
#if defined(OPS_HOST)  // a compiler for a GPU refuses these
KERNEL(shuffle_too_wide, Args) { (void)api->shuffle(1, 0, 2 * OPS_WAVE); }
KERNEL(shuffles_of_two_widths, Args) { (void)api->shuffle(1, 0, thread_x % 2 ? 2 : 4); }
KERNEL(too_much_shared, Args) { SHARED(char, big, 70000); big[0] = 1; }
#endif
KERNEL(past_shared, Args) { SHARED(char, small, 8); SHARED(char, other, 8); small[args.n] = 1; other[0] = 1; }
KERNEL(past_dynamic, Args) { DYNAMIC_SHARED(char, tile); tile[args.n] = 1; }
KERNEL(deep, Args) {
  volatile char frame[200000];
  for (int i = 199999; i >= 0; --i) frame[i] = 1;
  args.out[0] = frame[args.n];
}
KERNEL(reads_what_a_later_thread_writes, Args) {
  SHARED(int, tile, 64);
  tile[thread_x] = 5;
  args.out[thread_x] = tile[63];
}
KERNEL(reads_what_an_earlier_thread_writes, Args) {
  SHARED(int, tile, 64);
  tile[thread_x] = 5;
  args.out[thread_x] = tile[0];
}
KERNEL(good, Args) {
  SHARED(int, tile, 64);
  tile[thread_x] = 5;
  barrier();
  if (thread_x == 40) return;
  barrier();
  args.out[thread_x] = tile[63 - thread_x];
}
)";

// Launches a faulty kernel, and expects an error at the next synchronization and none after it.
void faulty(const Program& program, const char* name, hipError_t wanted, Args args, unsigned threads = 64,
            unsigned shared_bytes = 0) {
  check_misuse(name, [&] {
    must(launch(program.function(name), 3, threads, args, nullptr, shared_bytes));
    check_equal(hipDeviceSynchronize(), wanted, name);
  });
  check_equal(hipDeviceSynchronize(), hipSuccess, "reported once");
  Buffer<int> out(std::vector<int>(64));
  must(launch(program.function("good"), 3, 64, Args{out.data(), 0}));
  check_equal(hipDeviceSynchronize(), hipSuccess, "usable afterwards");
  check_equal(out.read()[0], 5, "usable afterwards");
}

void faults_in_kernels() {
  if (!on_host_engine()) return;  // a real fault ends an NVIDIA context
  Program program(source);
  Buffer<int> out(std::vector<int>(64));
  faulty(program, "write_at", hipErrorIllegalAddress, {out.data(), 64});
  faulty(program, "read_at", hipErrorIllegalAddress, {out.data(), 1 << 20});
  faulty(program, "write_at", hipErrorIllegalAddress, {nullptr, 0});
  faulty(program, "divide", hipErrorIllegalAddress, {out.data(), 0});
  faulty(program, "trap", hipErrorIllegalAddress, {out.data(), 0});
  faulty(program, "barrier_in_half_a_wave", hipErrorLaunchFailure, {out.data(), 0});
  faulty(program, "shuffle_or_ballot", hipErrorLaunchFailure, {out.data(), 0});
  faulty(program, "shuffle_too_wide", hipErrorLaunchFailure, {out.data(), 0});
  faulty(program, "shuffles_of_two_widths", hipErrorLaunchFailure, {out.data(), 0});
  faulty(program, "too_much_shared", hipErrorLaunchFailure, {out.data(), 0});
  faulty(program, "past_shared", hipErrorIllegalAddress, {out.data(), 8});
  faulty(program, "past_dynamic", hipErrorIllegalAddress, {out.data(), 100}, 64, 100);
  faulty(program, "past_dynamic", hipErrorIllegalAddress, {out.data(), 112}, 64, 100);
  faulty(program, "deep", hipErrorIllegalAddress, {out.data(), 0});
}

// Some element is read before its thread has written it, in one of the two execution orders.
void missing_barriers() {
  if (!on_host_engine()) return;
  Program program(source);
  for (const char* name : {"reads_what_a_later_thread_writes", "reads_what_an_earlier_thread_writes", "good"}) {
    bool wrong = false;
    for (int round = 0; round < 2; ++round) {
      Buffer<int> out(std::vector<int>(64, 5));
      must(launch(program.function(name), 1, 64, Args{out.data(), 0}));
      for (int value : out.read()) wrong = wrong || value != 5;
    }
    check(wrong == (std::string(name) != "good"), name);
  }
}

void use_after_free() {
  if (!on_host_engine()) return;
  Program program(source);
  void* ptr = nullptr;
  must(hipMalloc(&ptr, 64));
  must(hipFree(ptr));
  Buffer<int> out({0});
  check_misuse("a kernel uses freed memory", [&] {
    must(launch(program.function("write_at"), 1, 1, Args{static_cast<int*>(ptr), 0}));
    check_equal(hipDeviceSynchronize(), hipErrorIllegalAddress, "a kernel uses freed memory");
  });
  check_misuse("a copy uses freed memory", [&] {
    check_equal(hipMemcpy(ptr, "abcd", 4, hipMemcpyHostToDevice), hipErrorInvalidValue, "a copy uses freed memory");
  });
  check_misuse("freed twice", [&] { check_equal(hipFree(ptr), hipErrorInvalidValue, "freed twice"); });
  check_misuse("freed from its middle",
               [&] { check_equal(hipFree(out.data() + 1), hipErrorInvalidValue, "freed from its middle"); });
}

// Memory freed on one stream is used by another stream that does not wait: the second must fault.
void freed_on_another_stream() {
  if (!on_host_engine()) return;
  Program program(source);
  hipStream_t stream = nullptr;
  must(hipStreamCreateWithFlags(&stream, hipStreamNonBlocking));
  void* ptr = nullptr;
  must(hipMallocAsync(&ptr, 64, stream));
  must(hipFreeAsync(ptr, stream));
  must(hipStreamSynchronize(stream));
  check_misuse("freed on another stream", [&] {
    must(launch(program.function("write_at"), 1, 1, Args{static_cast<int*>(ptr), 0}));
    check_equal(hipDeviceSynchronize(), hipErrorIllegalAddress, "freed on another stream");
  });
  must(hipStreamDestroy(stream));
}

void ranges_and_kinds() {
  Buffer<char> device(std::vector<char>(100));
  char host[200] = {};
  const auto copy = [&](void* dst, const void* src, size_t bytes, hipMemcpyKind kind, const char* what) {
    check_misuse(what, [&] { check_equal(hipMemcpy(dst, src, bytes, kind), hipErrorInvalidValue, what); });
  };
  copy(device.data(), host, 101, hipMemcpyHostToDevice, "one byte too many");
  copy(device.data() + 50, host, 51, hipMemcpyHostToDevice, "one byte too many from the middle");
  copy(host, device.data(), 101, hipMemcpyDeviceToHost, "too many back");
  copy(device.data(), device.data(), 50, hipMemcpyHostToDevice, "device memory where host memory should be");
  copy(host, host + 100, 50, hipMemcpyDeviceToHost, "host memory where device memory should be");
  check_misuse("fill", [&] { check_equal(hipMemset(device.data() + 1, 0, 100), hipErrorInvalidValue, "fill"); });
  check_equal(hipMemcpy(device.data(), nullptr, 4, hipMemcpyHostToDevice), hipErrorInvalidValue, "null host pointer");
  must(hipMemcpy(device.data() + 50, host, 50, hipMemcpyHostToDevice));
}

void writes_around_an_allocation() {
  if (!on_host_engine()) return;
  Program program(source);
  void* ptr = nullptr;
  must(hipMalloc(&ptr, 61));  // 3 bytes of red zone behind it, many before
  must(launch(program.function("write_at"), 1, 1, Args{static_cast<int*>(ptr), -4}));
  must(hipDeviceSynchronize());
  check_misuse("written before the start", [&] { must(hipFree(ptr)); });
  must(hipMalloc(&ptr, 61));
  must(launch(program.function("write_at"), 1, 1, Args{static_cast<int*>(ptr), 15}));
  check_misuse("written past the end", [&] { must(hipFree(ptr)); });
}

void handles() {
  hipStream_t stream = nullptr;
  must(hipStreamCreateWithFlags(&stream, hipStreamDefault));
  must(hipStreamDestroy(stream));
  hipEvent_t event = nullptr;
  must(hipEventCreateWithFlags(&event, 0));
  must(hipEventDestroy(event));
  hipStream_t short_lived = nullptr;
  must(hipStreamCreateWithFlags(&short_lived, hipStreamDefault));
  hipEvent_t recorded = nullptr;
  must(hipEventCreateWithFlags(&recorded, 0));
  must(hipEventRecord(recorded, short_lived));
  must(hipStreamSynchronize(short_lived));
  must(hipEventQuery(recorded));
  must(hipStreamDestroy(short_lived));
  hipModule_t module = reinterpret_cast<hipModule_t>(&module);
  const auto stale = [](const char* what, hipError_t (*call)(void*), void* handle) {
    check_misuse(what, [&] { check_equal(call(handle), hipErrorInvalidHandle, what); });
  };
  stale("destroyed stream", [](void* h) { return hipStreamSynchronize(hipStream_t(h)); }, stream);
  stale("stream destroyed twice", [](void* h) { return hipStreamDestroy(hipStream_t(h)); }, stream);
  stale("destroyed event", [](void* h) { return hipEventRecord(hipEvent_t(h), nullptr); }, event);
  stale("event destroyed twice", [](void* h) { return hipEventDestroy(hipEvent_t(h)); }, event);
  stale("event of a destroyed stream", [](void* h) { return hipEventQuery(hipEvent_t(h)); }, recorded);
  stale("wait for such an event", [](void* h) { return hipEventSynchronize(hipEvent_t(h)); }, recorded);
  stale("a stream's wait", [](void* h) { return hipStreamWaitEvent(nullptr, hipEvent_t(h), 0); }, recorded);
  must(hipEventRecord(recorded, nullptr));
  must(hipEventSynchronize(recorded));
  must(hipEventQuery(recorded));
  must(hipEventDestroy(recorded));
  stale("not a module", [](void* h) { return hipModuleUnload(hipModule_t(h)); }, module);
  check_equal(hipStreamDestroy(nullptr), hipErrorInvalidHandle, "the null stream cannot be destroyed");
  hipFunction_t function = nullptr;
  {
    Program program(source);
    function = program.function("good");
  }
  check_misuse("function of an unloaded module", [&] {
    check_equal(launch(function, 1, 64, Args{}), hipErrorInvalidHandle, "function of an unloaded module");
  });
}

void captured_streams() {
  hipStream_t stream = nullptr;
  must(hipStreamCreateWithFlags(&stream, hipStreamNonBlocking));
  hipEvent_t event = nullptr;
  must(hipEventCreateWithFlags(&event, 0));
  must(hipEventRecord(event, stream));
  check_equal(standin_capture(stream, 1), 0, "a live stream");
  const auto refused = [](const char* what, const std::function<hipError_t()>& call) {
    check_misuse(what, [&] { check_equal(call(), hipErrorStreamCaptureUnsupported, what); });
  };
  refused("query of an event", [&] { return hipEventQuery(event); });
  refused("wait for an event", [&] { return hipEventSynchronize(event); });
  refused("query of the stream", [&] { return hipStreamQuery(stream); });
  refused("wait for the stream", [&] { return hipStreamSynchronize(stream); });
  check_equal(standin_capture(stream, 0), 0, "the end");
  must(hipStreamSynchronize(stream));
  must(hipEventQuery(event));
  must(hipEventDestroy(event));
  must(hipStreamDestroy(stream));
  check_equal(standin_capture(stream, 1), -1, "no live stream");
}

void launches() {
  Program program(source);
  const hipFunction_t good = program.function("good");
  Buffer<int> out(std::vector<int>(64));
  const Args args{out.data(), 0};
  check_equal(launch(good, 0, 64, args), hipErrorInvalidConfiguration, "no blocks");
  check_equal(launch(good, 1, 0, args), hipErrorInvalidConfiguration, "no threads");
  check_equal(launch(good, 1, 1025, args), hipErrorInvalidConfiguration, "too many threads");
  check_equal(launch(good, 1u << 30, 64, args), hipErrorInvalidConfiguration, "more than 2^32 threads");
  check_equal(launch(good, 1, 64, args, nullptr, 1 << 20), hipErrorInvalidConfiguration, "too much shared memory");
  if (on_host_engine())
    check_misuse("arguments of another size", [&] {
      check_equal(launch(good, 1, 64, char('x')), hipErrorInvalidValue, "arguments of another size");
    });
  must(launch(good, 1, 64, args));
  must(hipDeviceSynchronize());
}

void calls_from_callbacks() {
  hipStream_t stream = nullptr;
  must(hipStreamCreateWithFlags(&stream, hipStreamNonBlocking));
  check_misuse("a call from a host function", [&] {
    hipError_t result = hipSuccess;
    must(
        hipLaunchHostFunc(stream, [](void* out) { *static_cast<hipError_t*>(out) = hipDeviceSynchronize(); }, &result));
    must(hipStreamSynchronize(stream));
    check_equal(result, hipErrorNotSupported, "a call from a host function");
  });
  must(hipStreamDestroy(stream));
}

void injected_failures() {
  void* ptr = nullptr;
  const uint64_t before = standin_counts("hipMalloc");
  check_equal(standin_fail("hipMalloc:2,hipStreamCreateWithFlags:1"), 0, "readable");
  must(hipMalloc(&ptr, 4));
  must(hipFree(ptr));
  check_equal(hipMalloc(&ptr, 4), hipErrorOutOfMemory, "the second call fails");
  must(hipMalloc(&ptr, 4));
  must(hipFree(ptr));
  check_equal(standin_counts("hipMalloc") - before, 3u, "counted");
  hipStream_t stream = nullptr;
  check_equal(hipStreamCreateWithFlags(&stream, 0), hipErrorOutOfMemory, "a stream that cannot be made");
  check_equal(standin_fail("hipMalloc"), -1, "no number");
  check_equal(standin_fail("hipMalloc:0"), -1, "calls count from 1");
  check_equal(standin_fail("hipMemcpy:1+"), 0, "readable");
  for (int i = 0; i < 3; ++i)
    check_equal(hipMemcpy(nullptr, nullptr, 0, hipMemcpyDefault), hipErrorInvalidValue, "every call fails");
  check_equal(standin_fail(nullptr), 0, "cleared");
  must(hipMemcpy(nullptr, nullptr, 0, hipMemcpyDefault));
  rocblas_handle handle = nullptr;
  standin_fail("rocblas_create_handle:1");
  check_equal(rocblas_create_handle(&handle), rocblas_status_memory_error, "a library's function");
  standin_fail("");
  if (!on_host_engine()) return;
  Program program(source);
  Buffer<int> out(std::vector<int>(64));
  const uint64_t runs = standin_counts("kernel good");
  standin_fail("kernel:1");
  must(launch(program.function("good"), 1, 64, Args{out.data(), 0}));
  check_equal(hipDeviceSynchronize(), hipErrorLaunchFailure, "a kernel that fails while it runs");
  must(hipDeviceSynchronize());
  check_equal(standin_counts("kernel good") - runs, 1u, "runs of one kernel");
  const uint64_t others = standin_counts("kernel bad");
  standin_fail("kernel bad:1,kernel good:2");
  must(launch(program.function("good"), 1, 64, Args{out.data(), 0}));
  must(hipDeviceSynchronize());
  must(launch(program.function("good"), 1, 64, Args{out.data(), 0}));
  check_equal(hipDeviceSynchronize(), hipErrorLaunchFailure, "the second run of this kernel");
  check_equal(standin_counts("kernel good") - runs, 3u, "runs of one kernel, the failed ones too");
  check_equal(standin_counts("kernel bad"), others, "another kernel");
  standin_fail("");
}

void live_objects() {
  const uint64_t before = standin_live(nullptr), memory = standin_memory_in_use();
  hipStream_t stream = nullptr;
  must(hipStreamCreateWithFlags(&stream, 0));
  {
    Buffer<char> buffer(std::vector<char>(100));
    check_equal(standin_memory_in_use() - memory, 100u, "bytes in use");
    check_equal(standin_live(nullptr) - before, 2u, "a stream and its memory");
    check_equal(standin_live("memory"), 1u, "one allocation");
  }
  must(hipStreamDestroy(stream));
  check_equal(standin_live(nullptr), before, "all gone");
}

}  // namespace

int main() {
  return run_tests({{"faults_in_kernels", faults_in_kernels},
                    {"missing_barriers", missing_barriers},
                    {"use_after_free", use_after_free},
                    {"freed_on_another_stream", freed_on_another_stream},
                    {"ranges_and_kinds", ranges_and_kinds},
                    {"writes_around_an_allocation", writes_around_an_allocation},
                    {"handles", handles},
                    {"captured_streams", captured_streams},
                    {"launches", launches},
                    {"calls_from_callbacks", calls_from_callbacks},
                    {"injected_failures", injected_failures},
                    {"live_objects", live_objects}});
}
