// RCCL: collectives between three devices, what RCCL's arithmetic does to sums and maxima, misuse, and abort.
#include "check.h"
#include "rccl_api.h"

#include <cmath>
#include <cstdlib>
#include <thread>

namespace {

constexpr int ranks = 3;

void must_rccl(ncclResult_t result, const char* file = __builtin_FILE(), int line = __builtin_LINE()) {
  if (result == ncclSuccess) return;
  std::printf("%s:%d: %s\n", file, line, ncclGetErrorString(result));
  std::exit(1);
}

/// One rank: its device, stream, communicator, and memory for what it gives and gets.
struct Rank {
  int number = 0;
  ncclComm_t comm = nullptr;
  hipStream_t stream = nullptr;
  float* given = nullptr;
  float* got = nullptr;

  std::vector<float> result(size_t count) const {
    std::vector<float> values(count);
    must(hipMemcpyAsync(values.data(), got, count * sizeof(float), hipMemcpyDeviceToHost, stream));
    must(hipStreamSynchronize(stream));
    return values;
  }
};

/// Calls `body` on each rank, on a thread of its own.
template <class Body>
void on_each(Body body) {
  ncclComm_t comms[ranks];
  must_rccl(ncclCommInitAll(comms, ranks, nullptr));
  std::vector<std::thread> threads;
  for (int number = 0; number < ranks; ++number)
    threads.emplace_back([&, number] {
      must(hipSetDevice(number));
      Rank rank{number, comms[number]};
      must(hipStreamCreateWithFlags(&rank.stream, hipStreamNonBlocking));
      must(hipMalloc(reinterpret_cast<void**>(&rank.given), ranks * sizeof(float)));
      must(hipMalloc(reinterpret_cast<void**>(&rank.got), ranks * sizeof(float)));
      std::vector<float> values(ranks, float(number + 1));
      must(hipMemcpyAsync(rank.given, values.data(), ranks * sizeof(float), hipMemcpyHostToDevice, rank.stream));
      body(rank);
      must(hipStreamSynchronize(rank.stream));
      must(hipFree(rank.given));
      must(hipFree(rank.got));
      must(hipStreamDestroy(rank.stream));
    });
  for (std::thread& thread : threads) thread.join();
}

void destroy(const Rank& rank) { must_rccl(ncclCommDestroy(rank.comm)); }

void collectives_combine_ranks() {
  on_each([](Rank& rank) {
    must_rccl(ncclAllReduce(rank.given, rank.got, 2, ncclFloat32, ncclSum, rank.comm, rank.stream));
    check(rank.result(2) == std::vector<float>{6, 6}, "a sum");
    must_rccl(ncclAllGather(rank.given, rank.got, 1, ncclFloat32, rank.comm, rank.stream));
    check(rank.result(3) == std::vector<float>{1, 2, 3}, "gathered in rank order");
    must_rccl(ncclReduceScatter(rank.given, rank.got, 1, ncclFloat32, ncclMax, rank.comm, rank.stream));
    check(rank.result(1) == std::vector<float>{3}, "a part of the maximum");
    must_rccl(ncclBroadcast(rank.given, rank.got, 2, ncclFloat32, 1, rank.comm, rank.stream));
    check(rank.result(2) == std::vector<float>{2, 2}, "from rank 1");
    destroy(rank);
  });
}

void sends_and_receives_of_a_group_progress_together() {
  on_each([](Rank& rank) {
    const int next = (rank.number + 1) % ranks, former = (rank.number + 2) % ranks;
    must_rccl(ncclGroupStart());
    must_rccl(ncclSend(rank.given, 2, ncclFloat32, next, rank.comm, rank.stream));
    must_rccl(ncclRecv(rank.got, 2, ncclFloat32, former, rank.comm, rank.stream));
    must_rccl(ncclGroupEnd());
    check(rank.result(2) == std::vector<float>(2, float(former + 1)), "what the former rank sent");
    destroy(rank);
  });
}

void maxima_ignore_nan() {
  on_each([](Rank& rank) {
    const float nan = NAN;
    if (rank.number == 1) must(hipMemcpyAsync(rank.given, &nan, sizeof nan, hipMemcpyHostToDevice, rank.stream));
    must_rccl(ncclAllReduce(rank.given, rank.got, 1, ncclFloat32, ncclMax, rank.comm, rank.stream));
    check(rank.result(1) == std::vector<float>{3}, "NaN is ignored");
    destroy(rank);
  });
}

void ranks_that_disagree_wait_until_they_are_aborted() {
  check_misuse("ranks disagree", [] {
    on_each([](Rank& rank) {
      const size_t count = rank.number == 0 ? 1 : 2;
      must_rccl(ncclAllReduce(rank.given, rank.got, count, ncclFloat32, ncclSum, rank.comm, rank.stream));
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
      check(hipStreamQuery(rank.stream) == hipErrorNotReady, "the collective waits");
      must_rccl(ncclCommAbort(rank.comm));
    });
  });
}

void misuse_is_reported() {
  ncclComm_t comms[ranks];
  const int twice[] = {0, 0};
  check_equal(ncclCommInitAll(comms, 2, twice), ncclInvalidUsage, "two ranks on one device");
  must_rccl(ncclCommInitAll(comms, 1, nullptr));
  must(hipSetDevice(0));
  float* memory = nullptr;
  must(hipMalloc(reinterpret_cast<void**>(&memory), 8));
  check_misuse("memory that is too small", [&] {
    check_equal(ncclAllReduce(memory, memory, 3, ncclFloat32, ncclSum, comms[0], nullptr), ncclInvalidArgument, "status");
  });
  must(hipSetDevice(1));
  check_misuse("another device is current", [&] {
    check_equal(ncclAllReduce(memory, memory, 2, ncclFloat32, ncclSum, comms[0], nullptr), ncclInvalidUsage, "status");
  });
  must(hipSetDevice(0));
  must_rccl(ncclCommDestroy(comms[0]));
  check_misuse("a destroyed communicator", [&] { ncclCommDestroy(comms[0]); });
  must(hipFree(memory));
}

}  // namespace

int main() {
  // The cuda engine's devices are those of the machine.
  if (!on_host_engine()) return 0;
  // Before the first call, which reads it.
  const char* wave = std::getenv("HIP_STANDIN_WAVE");
  const std::string gfx = wave && std::string(wave) == "64" ? "gfx90a" : "gfx1100";
  setenv("HIP_STANDIN_DEVICES", (gfx + "," + gfx + "," + gfx).c_str(), 1);
  return run_tests({{"collectives_combine_ranks", collectives_combine_ranks},
                    {"sends_and_receives_of_a_group_progress_together", sends_and_receives_of_a_group_progress_together},
                    {"maxima_ignore_nan", maxima_ignore_nan},
                    {"ranks_that_disagree_wait_until_they_are_aborted", ranks_that_disagree_wait_until_they_are_aborted},
                    {"misuse_is_reported", misuse_is_reported}});
}
