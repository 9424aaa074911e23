// Memory, copies, streams and events.
#include "check.h"

#include <atomic>
#include <chrono>
#include <cstring>
#include <numeric>
#include <thread>

namespace {

using Clock = std::chrono::steady_clock;

void sleep_ms(int ms) { std::this_thread::sleep_for(std::chrono::milliseconds(ms)); }

hipStream_t new_stream(unsigned flags = hipStreamNonBlocking) {
  hipStream_t stream = nullptr;
  must(hipStreamCreateWithFlags(&stream, flags));
  return stream;
}

// Keeps a stream busy until it is released.
struct Gate {
  std::atomic<bool> open{false};
  void hold(hipStream_t stream) {
    must(hipLaunchHostFunc(
        stream,
        [](void* self) {
          while (!static_cast<Gate*>(self)->open) std::this_thread::yield();
        },
        this));
  }
};

void device_description() {
  int count = 0;
  must(hipGetDeviceCount(&count));
  check(count >= 1, "a device");
  hipDeviceProp_tR0600 p;
  must(hipGetDevicePropertiesR0600(&p, 0));
  int wave = 0;
  must(hipDeviceGetAttribute(&wave, hipDeviceAttributeWarpSize, 0));
  check_equal(wave, p.warpSize, "wave size");
  if (on_host_engine()) check_equal(wave, std::atoi(std::getenv("HIP_STANDIN_WAVE")), "the requested wave size");
  check(std::strncmp(p.gcnArchName, "gfx", 3) == 0, "gcnArchName");
  size_t free = 0, total = 0;
  must(hipMemGetInfo(&free, &total));
  check(free <= total && total == p.totalGlobalMem, "memory sizes");
  check_equal(hipSetDevice(99), hipErrorInvalidDevice, "no such device");
  check_equal(hipGetLastError(), hipErrorInvalidDevice, "last error");
  check_equal(hipGetLastError(), hipSuccess, "last error is cleared by reading");
  int version = 0;
  must(hipRuntimeGetVersion(&version));
  check_equal(version / 10000000, 7, "major version");
}

void copies_and_fills() {
  std::vector<int> values(1000);
  std::iota(values.begin(), values.end(), 0);
  Buffer<int> a(values), b(std::vector<int>(1000, 0));
  must(hipMemcpyDtoDAsync(b.data(), a.data(), a.bytes(), nullptr));
  check(b.read() == values, "device to device");
  must(hipMemsetD32Async(b.data() + 1, 7, 3, nullptr));
  must(hipMemsetD16Async(b.data() + 4, 0x0102, 2, nullptr));
  must(hipMemset(b.data() + 5, 0xff, 4));
  const std::vector<int> filled = b.read();
  check_equal(filled[0], 0, "before the fill");
  check_equal(filled[3], 7, "32-bit fill");
  check_equal(filled[4], 0x01020102, "16-bit fill");
  check_equal(filled[5], -1, "8-bit fill");
  check_equal(filled[6], 6, "after the fills");
  must(hipMemcpy(b.data(), nullptr, 0, hipMemcpyHostToDevice));
}

void fresh_memory_is_not_zero() {
  if (!on_host_engine()) return;
  void* ptr = nullptr;
  must(hipMalloc(&ptr, 4));
  float value = 0;
  must(hipMemcpy(&value, ptr, 4, hipMemcpyDeviceToHost));
  check(value != value, "memory never written reads as NaN");
  must(hipFree(ptr));
}

void pinned_memory() {
  void* host = nullptr;
  must(hipHostMalloc(&host, 100, hipHostMallocDefault));
  std::memset(host, 3, 100);
  hipPointerAttribute_t attributes;
  must(hipPointerGetAttributes(&attributes, static_cast<char*>(host) + 50));
  check_equal(attributes.type, hipMemoryTypeHost, "type of pinned memory");
  Buffer<char> device(std::vector<char>(100, 0));
  must(hipPointerGetAttributes(&attributes, device.data()));
  check_equal(attributes.type, hipMemoryTypeDevice, "type of device memory");
  must(hipMemcpyAsync(device.data(), host, 100, hipMemcpyHostToDevice, nullptr));
  check_equal(int(device.read()[99]), 3, "copied");
  must(hipHostFree(host));
  std::vector<char> own(5000);
  must(hipHostRegister(own.data(), own.size(), 0));
  check_equal(hipHostRegister(own.data(), own.size(), 0), hipErrorHostMemoryAlreadyRegistered, "registered twice");
  must(hipHostUnregister(own.data()));
}

void streams_run_behind_the_caller() {
  hipStream_t stream = new_stream();
  Buffer<int> buffer({1, 2, 3, 4});
  void* host = nullptr;
  must(hipHostMalloc(&host, 16, 0));
  std::memset(host, 0, 16);
  Gate gate;
  gate.hold(stream);
  check_equal(hipStreamQuery(stream), hipErrorNotReady, "busy");
  must(hipMemcpyAsync(host, buffer.data(), 16, hipMemcpyDeviceToHost, stream));
  sleep_ms(5);
  check_equal(static_cast<int*>(host)[3], 0, "the copy waits its turn");
  gate.open = true;
  must(hipStreamSynchronize(stream));
  check_equal(static_cast<int*>(host)[3], 4, "copied");
  must(hipStreamQuery(stream));
  must(hipHostFree(host));
  must(hipStreamDestroy(stream));
}

void events_order_streams() {
  hipStream_t first = new_stream(), second = new_stream();
  hipEvent_t event = nullptr, done = nullptr;
  must(hipEventCreateWithFlags(&event, hipEventDisableTiming));
  must(hipEventCreateWithFlags(&done, hipEventDefault));
  Buffer<int> buffer({0});
  Gate gate;
  gate.hold(first);
  must(hipMemsetD32Async(buffer.data(), 1, 1, first));
  must(hipEventRecord(event, first));
  must(hipStreamWaitEvent(second, event, 0));
  must(hipMemsetD32Async(buffer.data(), 2, 1, second));
  must(hipEventRecord(done, second));
  sleep_ms(20);
  check_equal(hipEventQuery(done), hipErrorNotReady, "the second stream waits for the first");
  gate.open = true;
  must(hipEventSynchronize(done));
  must(hipDeviceSynchronize());
  check_equal(buffer.read()[0], 2, "the later write wins");
  float ms = 0;
  check_equal(hipEventElapsedTime(&ms, event, done), hipErrorInvalidHandle, "an event without timing");
  must(hipEventDestroy(event));
  must(hipEventDestroy(done));
  must(hipStreamDestroy(first));
  must(hipStreamDestroy(second));
}

void events_measure_time() {
  hipEvent_t start = nullptr, stop = nullptr;
  must(hipEventCreateWithFlags(&start, 0));
  must(hipEventCreateWithFlags(&stop, 0));
  hipStream_t stream = new_stream();
  float ms = -1;
  check_equal(hipEventElapsedTime(&ms, start, stop), hipErrorInvalidHandle, "not recorded yet");
  must(hipEventRecord(start, stream));
  must(hipLaunchHostFunc(stream, [](void*) { sleep_ms(20); }, nullptr));
  must(hipEventRecord(stop, stream));
  must(hipStreamSynchronize(stream));
  must(hipEventElapsedTime(&ms, start, stop));
  check(ms >= 19 && ms < 2000, "about 20 ms");
  must(hipEventDestroy(start));
  must(hipEventDestroy(stop));
  must(hipStreamDestroy(stream));
}

void null_stream_waits_for_blocking_streams() {
  for (const bool blocking : {true, false}) {
    hipStream_t stream = new_stream(blocking ? hipStreamDefault : hipStreamNonBlocking);
    Buffer<int> buffer({0});
    Gate gate;
    gate.hold(stream);
    must(hipMemsetAsync(buffer.data(), 1, 4, nullptr));
    hipEvent_t event = nullptr;
    must(hipEventCreateWithFlags(&event, 0));
    must(hipEventRecord(event, nullptr));
    sleep_ms(20);
    if (blocking) check_equal(hipEventQuery(event), hipErrorNotReady, "the null stream waits");
    if (!blocking) must(hipEventSynchronize(event));
    gate.open = true;
    must(hipDeviceSynchronize());
    must(hipEventDestroy(event));
    must(hipStreamDestroy(stream));
  }
}

void blocking_streams_wait_for_the_null_stream() {
  for (const bool blocking : {true, false}) {
    hipStream_t stream = new_stream(blocking ? hipStreamDefault : hipStreamNonBlocking);
    hipEvent_t event = nullptr;
    must(hipEventCreateWithFlags(&event, 0));
    Gate gate;
    gate.hold(nullptr);
    must(hipEventRecord(event, stream));
    sleep_ms(20);
    if (blocking) check_equal(hipEventQuery(event), hipErrorNotReady, "the stream waits");
    if (!blocking) must(hipEventSynchronize(event));
    gate.open = true;
    must(hipDeviceSynchronize());
    must(hipEventDestroy(event));
    must(hipStreamDestroy(stream));
  }
}

void stream_ordered_memory() {
  hipStream_t stream = new_stream();
  void* ptr = nullptr;
  must(hipMallocAsync(&ptr, 64, stream));
  must(hipMemsetAsync(ptr, 5, 64, stream));
  char value[64];
  must(hipMemcpyAsync(value, ptr, 64, hipMemcpyDeviceToHost, stream));
  must(hipFreeAsync(ptr, stream));
  must(hipStreamSynchronize(stream));
  check_equal(int(value[63]), 5, "used between allocation and release");
  must(hipStreamDestroy(stream));
}

void out_of_memory() {
  if (!on_host_engine()) return;
  size_t free = 0, total = 0;
  must(hipMemGetInfo(&free, &total));
  void* ptr = nullptr;
  check_equal(hipMalloc(&ptr, total + 1), hipErrorOutOfMemory, "more than there is");
  check(ptr == nullptr, "no pointer on failure");
  hipStream_t stream = new_stream();
  for (int i = 0; i < 4; ++i) {  // each fits only when the one before it counts as freed
    must(hipMallocAsync(&ptr, total / 2 + 1, stream));
    must(hipFreeAsync(ptr, stream));
  }
  must(hipStreamDestroy(stream));
  size_t after = 0;
  must(hipMemGetInfo(&after, &total));
  check_equal(after, free, "all given back");
}

void callbacks() {
  hipStream_t stream = new_stream();
  std::atomic<int> calls{0};
  must(hipStreamAddCallback(
      stream,
      [](hipStream_t, hipError_t status, void* counter) {
        if (status == hipSuccess) ++*static_cast<std::atomic<int>*>(counter);
      },
      &calls, 0));
  must(hipStreamSynchronize(stream));
  check_equal(calls.load(), 1, "called once");
  must(hipStreamDestroy(stream));
}

void many_threads() {
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([t] {
      hipStream_t stream = new_stream();
      for (int i = 0; i < 50; ++i) {
        void* ptr = nullptr;
        must(hipMallocAsync(&ptr, 256, stream));
        must(hipMemsetD32Async(ptr, t * 1000 + i, 64, stream));
        int values[64];
        must(hipMemcpyAsync(values, ptr, 256, hipMemcpyDeviceToHost, stream));
        must(hipFreeAsync(ptr, stream));
        must(hipStreamSynchronize(stream));
        check_equal(values[63], t * 1000 + i, "own value");
      }
      must(hipStreamDestroy(stream));
    });
  for (std::thread& thread : threads) thread.join();
}

}  // namespace

int main() {
  return run_tests({{"device_description", device_description},
                    {"copies_and_fills", copies_and_fills},
                    {"fresh_memory_is_not_zero", fresh_memory_is_not_zero},
                    {"pinned_memory", pinned_memory},
                    {"streams_run_behind_the_caller", streams_run_behind_the_caller},
                    {"events_order_streams", events_order_streams},
                    {"events_measure_time", events_measure_time},
                    {"null_stream_waits_for_blocking_streams", null_stream_waits_for_blocking_streams},
                    {"blocking_streams_wait_for_the_null_stream", blocking_streams_wait_for_the_null_stream},
                    {"stream_ordered_memory", stream_ordered_memory},
                    {"out_of_memory", out_of_memory},
                    {"callbacks", callbacks},
                    {"many_threads", many_threads}});
}
