// Settings that affect a whole process: the program runs itself again with each of them and checks how it ends.
#include <spawn.h>
#include <sys/wait.h>

#include <csignal>
#include <cstring>

#include "program.h"
#include "hipblaslt_api.h"
#include "rocblas_api.h"

extern char** environ;

namespace {

struct Args {
  int* out;
  int n;
};

const char* const source = R"(
struct Args { int* out; int n; };
KERNEL(write_at, Args) { args.out[args.n] = 1; }
)";

int leak() {
  void* ptr = nullptr;
  return hipMalloc(&ptr, 4);
}

int misuse() { return hipMemset(nullptr, 0, 4) == hipErrorInvalidValue ? 0 : 1; }

int initialise() { return hipInit(0); }

int without_devices() {
  rocblas_handle handle = nullptr;
  int count = -1;
  const bool right = hipInit(0) == hipErrorNoDevice && hipGetDeviceCount(&count) == hipErrorNoDevice && count == 0 &&
                     rocblas_create_handle(&handle) == rocblas_status_internal_error && !handle;
  return right ? 0 : 1;
}

int two_devices() {
  hipDeviceProp_tR0600 first, second;
  must(hipGetDevicePropertiesR0600(&first, 0));
  must(hipGetDevicePropertiesR0600(&second, 1));
  must(hipSetDevice(1));
  hipStream_t stream = nullptr;
  must(hipStreamCreateWithFlags(&stream, 0));
  must(hipSetDevice(0));
  hipEvent_t event = nullptr;
  must(hipEventCreateWithFlags(&event, 0));
  const bool refused = hipEventRecord(event, stream) == hipErrorInvalidHandle;
  return refused && first.integrated == 1 && !second.integrated && !std::strcmp(second.gcnArchName, "gfx942") ? 0 : 1;
}

// All functions that AMD's runtime answers for the current device, called while that is not the module's device.
int module_of_another_device() {
  Program program(source);
  Buffer<int> out(std::vector<int>(1, 3));
  const hipFunction_t function = program.function("write_at");
  hipStream_t stream = nullptr;
  must(hipStreamCreateWithFlags(&stream, 0));
  must(hipSetDevice(1));
  int value = 0;
  hipFunction_t again = nullptr;
  hipDeviceptr_t global = nullptr;
  const std::pair<const char*, std::function<hipError_t()>> calls[] = {
      {"hipModuleGetFunction", [&] { return hipModuleGetFunction(&again, program.module(), "write_at"); }},
      {"hipModuleGetGlobal", [&] { return hipModuleGetGlobal(&global, nullptr, program.module(), "any"); }},
      {"hipFuncGetAttribute",
       [&] { return hipFuncGetAttribute(&value, HIP_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK, function); }},
      {"hipModuleOccupancyMaxActiveBlocksPerMultiprocessor",
       [&] { return hipModuleOccupancyMaxActiveBlocksPerMultiprocessor(&value, function, 64, 0); }},
      {"hipModuleLaunchKernel", [&] { return launch(function, 1, 1, Args{out.data(), 0}, stream); }},
  };
  for (const auto& [name, call] : calls)
    check_misuse(name, [&, call = call, name = name] { check_equal(call(), hipErrorInvalidContext, name); });
  must(hipSetDevice(0));
  must(hipStreamDestroy(stream));
  check_equal(out.read()[0], 3, "nothing was launched");
  return failures;
}

int rocblas_handle_made() {
  rocblas_handle handle = nullptr;
  return rocblas_create_handle(&handle) == rocblas_status_success ? 0 : 1;
}

// Asks hipBLASLt for a kernel, for which it needs those of the device.
int hipblaslt_asked() {
  hipblasLtHandle_t handle = nullptr;
  hipblasLtMatmulDesc_t desc = nullptr;
  hipblasLtMatmulPreference_t preference = nullptr;
  hipblasLtMatrixLayout_t layout = nullptr;
  hipblasLtMatmulHeuristicResult_t result;
  int found = -1;
  const bool asked = hipblasLtCreate(&handle) == HIPBLAS_STATUS_SUCCESS && handle &&
                     hipblasLtMatmulDescCreate(&desc, HIPBLAS_COMPUTE_32F, HIP_R_32F) == HIPBLAS_STATUS_SUCCESS &&
                     hipblasLtMatmulPreferenceCreate(&preference) == HIPBLAS_STATUS_SUCCESS &&
                     hipblasLtMatrixLayoutCreate(&layout, HIP_R_32F, 1, 1, 1) == HIPBLAS_STATUS_SUCCESS &&
                     hipblasLtMatmulAlgoGetHeuristic(handle, desc, layout, layout, layout, layout, preference, 1,
                                                     &result, &found) == HIPBLAS_STATUS_SUCCESS;
  return asked && found == (on_host_engine() ? 1 : 0) ? 0 : 1;
}

int kernel_past_the_end() {
  Program program(source);
  Buffer<int> out(std::vector<int>(4, 3));
  must(launch(program.function("write_at"), 1, 1, Args{out.data(), 4}));
  return hipDeviceSynchronize();
}

int bad_arch() { return compile("", {"--offload-arch=gfxnone"}).result; }

int more_memory_shown() {
  size_t free = 0, total = 0;
  must(hipMemGetInfo(&free, &total));
  void* ptr = nullptr;
  return total == 1048576 && hipMalloc(&ptr, total / 2) == hipErrorOutOfMemory ? 0 : 1;
}

int freed_memory_on_the_host() {
  void* ptr = nullptr;
  must(hipMalloc(&ptr, 4));
  must(hipFree(ptr));
  return *static_cast<volatile int*>(ptr);
}

// A kernel of device 0 writes to memory of device 1: which rule was not enforced, or 4 if the write is lost.
int memory_of_another_device() {
  struct Args {
    int* out;
  };
  const Program program("struct Args { int* out; };\nKERNEL(put, Args) { args.out[0] = 7; }");
  const hipFunction_t put = program.function("put");
  void *coarse = nullptr, *uncached = nullptr;
  must(hipSetDevice(1));
  must(hipMalloc(&coarse, 4));
  if (hipExtMallocWithFlags(&uncached, 4, 9) != hipErrorInvalidValue) return 1;
  must(hipExtMallocWithFlags(&uncached, 4, hipDeviceMallocUncached));
  must(hipSetDevice(0));
  if (launch(put, 1, 1, Args{static_cast<int*>(uncached)}) != hipErrorIllegalAddress) return 2;
  if (const hipError_t error = hipDeviceEnablePeerAccess(1, 0)) return error == hipErrorPeerAccessUnsupported ? 3 : 1;
  if (hipDeviceEnablePeerAccess(1, 0) != hipErrorPeerAccessAlreadyEnabled) return 1;
  const uint64_t before = standin_misuses();
  must(launch(put, 1, 1, Args{static_cast<int*>(uncached)}));
  if (standin_misuses() != before) return 1;
  must(launch(put, 1, 1, Args{static_cast<int*>(coarse)}));
  if (standin_misuses() == before) return 1;
  must(hipDeviceSynchronize());
  int got = 0;
  must(hipMemcpy(&got, uncached, 4, hipMemcpyDeviceToHost));
  return got == 7 ? 0 : 4;
}

const std::vector<std::pair<std::string, int (*)()>> children = {
    {"leak", leak},
    {"misuse", misuse},
    {"initialise", initialise},
    {"without-devices", without_devices},
    {"two-devices", two_devices},
    {"module-elsewhere", module_of_another_device},
    {"memory-elsewhere", memory_of_another_device},
    {"rocblas", rocblas_handle_made},
    {"hipblaslt", hipblaslt_asked},
    {"past-the-end", kernel_past_the_end},
    {"bad-arch", bad_arch},
    {"memory-shown", more_memory_shown},
    {"freed-memory", freed_memory_on_the_host},
};

int run_child(const std::string& name) {
  for (const auto& [known, run] : children)
    if (known == name) return run();
  return 99;
}

// The wait status of this program, run again as `child` with more settings.
int wait_status(const char* child, const std::vector<std::string>& settings) {
  std::vector<char*> environment;
  for (char** entry = environ; *entry; ++entry) environment.push_back(*entry);
  for (const std::string& setting : settings) environment.push_back(const_cast<char*>(setting.c_str()));
  environment.push_back(nullptr);
  char program[] = "/proc/self/exe";
  char* arguments[] = {program, const_cast<char*>(child), nullptr};
  pid_t pid = 0;
  int status = -1;
  if (posix_spawn(&pid, program, nullptr, nullptr, arguments, environment.data()) == 0) waitpid(pid, &status, 0);
  return status;
}

void exits_with(int wanted, const char* child, const std::vector<std::string>& settings, int line = __builtin_LINE()) {
  const int status = wait_status(child, settings);
  check(WIFEXITED(status), child, __FILE__, line);
  check_equal(WEXITSTATUS(status), wanted, child, __FILE__, line);
}

void aborts(const char* child, const std::vector<std::string>& settings, int line = __builtin_LINE()) {
  const int status = wait_status(child, settings);
  check(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT, child, __FILE__, line);
}

void strict() {
  exits_with(86, "leak", {"HIP_STANDIN_STRICT=1"});
  exits_with(86, "misuse", {"HIP_STANDIN_STRICT=1"});
  exits_with(0, "leak", {});
  exits_with(0, "misuse", {});
  exits_with(0, "initialise", {"HIP_STANDIN_STRICT=1"});
}

void faults_from_the_environment() {
  exits_with(hipErrorNotInitialized, "initialise", {"HIP_STANDIN_FAIL=hipInit:1"});
  exits_with(0, "initialise", {"HIP_STANDIN_FAIL=hipInit:2"});
}

void unreadable_settings() {
  aborts("initialise", {"HIP_STANDIN_FAIL=hipInit"});
  aborts("initialise", {"HIP_STANDIN_GFX=bogus"});
  aborts("initialise", {"HIP_STANDIN_MEMORY=lots"});
  aborts("initialise", {"HIP_STANDIN_LAUNCH=sometimes"});
}

void devices() {
  exits_with(0, "without-devices", {"HIP_STANDIN_DEVICES=none"});
  exits_with(0, "two-devices", {"HIP_STANDIN_DEVICES=gfx1036:integrated,gfx942"});
  exits_with(0, "module-elsewhere", {"HIP_STANDIN_DEVICES=" + device_gfx() + "," + device_gfx()});
  const std::string two = "HIP_STANDIN_DEVICES=" + device_gfx() + "," + device_gfx();
  exits_with(0, "memory-elsewhere", {two});
  exits_with(3, "memory-elsewhere", {two, "HIP_STANDIN_PEERS=none"});
  exits_with(4, "memory-elsewhere", {two, "HIP_STANDIN_PEERS=lost"});
  aborts("initialise", {"HIP_STANDIN_PEERS=perhaps"});
  exits_with(0, "memory-shown", {"HIP_STANDIN_MEMORY=262144", "HIP_STANDIN_MEMORY_SHOWN=1048576"});
}

void tensile_libraries() {
  exits_with(0, "rocblas", {});
  aborts("rocblas", {"HIP_STANDIN_NO_TENSILE=1"});
  aborts("rocblas", {"HIP_STANDIN_GFX=gfx1031"});
  aborts("rocblas", {"ROCBLAS_TENSILE_LIBPATH=/nonexistent"});
  exits_with(0, "hipblaslt", {});
  aborts("hipblaslt", {"HIP_STANDIN_NO_TENSILE=1"});
  aborts("hipblaslt", {"HIP_STANDIN_GFX=gfx1031"});
  aborts("hipblaslt", {"HIPBLASLT_TENSILE_LIBPATH=/nonexistent"});
}

void faults_that_end_the_process() {
  exits_with(hipErrorIllegalAddress % 256, "past-the-end", {});
  exits_with(0, "past-the-end", {"HIP_STANDIN_LAUNCH=stub"});
  aborts("past-the-end", {"HIP_STANDIN_FAULT=abort"});
  exits_with(HIPRTC_ERROR_COMPILATION, "bad-arch", {});
  aborts("bad-arch", {"HIP_STANDIN_BAD_ARCH=abort"});
  const int status = wait_status("freed-memory", {});  // ends by a signal, or by the sanitizer's own exit
  check(WIFSIGNALED(status) || WEXITSTATUS(status) != 0, "host code that touches freed device memory");
}

}  // namespace

int main(int count, char** arguments) {
  if (count > 1) return run_child(arguments[1]);
  if (!on_host_engine()) return 0;  // about the host engine's devices
  return run_tests({{"strict", strict},
                    {"faults_from_the_environment", faults_from_the_environment},
                    {"unreadable_settings", unreadable_settings},
                    {"devices", devices},
                    {"tensile_libraries", tensile_libraries},
                    {"faults_that_end_the_process", faults_that_end_the_process}});
}
