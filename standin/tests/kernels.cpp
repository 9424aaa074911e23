// Compiling, loading and launching: barriers, shuffles, ballots, shared memory, and both ways to pass arguments.
#include "program.h"

#include <cmath>
#include <numeric>

namespace {

struct Sum {
  const float* in;
  float* out;
  unsigned count;
};

// Each block sums its part: within waves by shuffles, across waves through shared memory.
const char* const sum_source = R"(
struct Sum { const float* in; float* out; unsigned count; };
KERNEL(block_sum, Sum) {
  SHARED(float, partial, 64);
  unsigned i = block_x * block_dim_x + thread_x, lane = thread_x % OPS_WAVE, wave = thread_x / OPS_WAVE;
  float v = i < args.count ? args.in[i] : 0;
  for (unsigned step = OPS_WAVE / 2; step; step /= 2) v += shuffle(v, lane + step < OPS_WAVE ? lane + step : lane);
  if (lane == 0) partial[wave] = v;
  barrier();
  if (thread_x == 0) {
    float total = 0;
    for (unsigned w = 0; w < (block_dim_x + OPS_WAVE - 1) / OPS_WAVE; ++w) total += partial[w];
    args.out[block_x] = total;
  }
}
KERNEL(reversed, Sum) {
  DYNAMIC_SHARED(float, tile);
  tile[thread_x] = args.in[thread_x];
  barrier();
  args.out[thread_x] = tile[block_dim_x - 1 - thread_x];
}
struct Votes { uint64_t* out; };
KERNEL(odd_lanes, Votes) {
  uint64_t votes = ballot(thread_x % 2);
  if (thread_x % OPS_WAVE == 0) args.out[thread_x / OPS_WAVE] = votes;
}
)";

void block_sums() {
  Program program(sum_source);
  for (unsigned threads : {32u, 64u, 96u, 256u, 1024u}) {
    const unsigned count = 5 * threads - 3;
    if (threads % device_wave_size() != 0) continue;  // all lanes of a wave must be there for this kernel
    std::vector<float> values(count);
    std::iota(values.begin(), values.end(), 1.f);
    Buffer<float> in(values), out(std::vector<float>(5, -1));
    must(launch(program.function("block_sum"), 5, threads, Sum{in.data(), out.data(), count}));
    must(hipDeviceSynchronize());
    const std::vector<float> sums = out.read();
    for (unsigned b = 0; b < 5; ++b) {
      float wanted = 0;
      for (unsigned i = b * threads; i < std::min(count, (b + 1) * threads); ++i) wanted += values[i];
      check_equal(sums[b], wanted, "sum of a block");
    }
  }
}

void dynamic_shared_memory() {
  Program program(sum_source);
  std::vector<float> values(200);
  std::iota(values.begin(), values.end(), 0.f);
  Buffer<float> in(values), out(std::vector<float>(200, -1));
  must(launch(program.function("reversed"), 1, 200, Sum{in.data(), out.data(), 0}, nullptr, 800));
  must(hipDeviceSynchronize());
  const std::vector<float> reversed = out.read();
  for (size_t i = 0; i < values.size(); ++i) check_equal(reversed[i], values[values.size() - 1 - i], "reversed");
}

void ballots() {
  Program program(sum_source);
  struct Votes {
    uint64_t* out;
  };
  const unsigned wave = device_wave_size();
  Buffer<uint64_t> out(std::vector<uint64_t>(2));
  must(launch(program.function("odd_lanes"), 1, 2 * wave, Votes{out.data()}));
  must(hipDeviceSynchronize());
  const uint64_t wanted = wave == 64 ? 0xaaaaaaaaaaaaaaaa : 0xaaaaaaaa;
  for (uint64_t votes : out.read()) check_equal(votes, wanted, "odd lanes");
}

// Lanes that have returned, that the block does not have, or that are alone.
void lanes_that_take_no_part() {
  if (!on_host_engine()) return;  // undefined on a GPU
  Program program(R"(
    struct Args { uint64_t* out; };
    KERNEL(lanes_leave, Args) {
      const unsigned me = thread_x;
      uint64_t* out = args.out + 256 * block_x;
      out[me] = api->shuffle(100 + me, me ^ 1, 4);
      if (me % 3 == 1) return;
      out[64 + me] = api->shuffle(200 + me, me + 1, OPS_WAVE);
      out[128 + me] = ballot(me % 2);
      if (me != 6) return;
      out[192] = api->shuffle(300, 6, OPS_WAVE);
      out[193] = ballot(1);
      out[194] = api->shuffle(301, 7, OPS_WAVE);
    })");
  constexpr unsigned threads = 24, blocks = 3;
  constexpr uint64_t nobody = ~uint64_t(0);
  struct Args {
    uint64_t* out;
  };
  Buffer<uint64_t> out(std::vector<uint64_t>(256 * blocks));
  must(launch(program.function("lanes_leave"), blocks, threads, Args{out.data()}));
  must(hipDeviceSynchronize());
  uint64_t votes = 0;
  for (unsigned me = 0; me < threads; ++me) votes |= uint64_t(me % 3 != 1 && me % 2) << me;
  const std::vector<uint64_t> all = out.read();
  for (unsigned block = 0; block < blocks; ++block) {
    const uint64_t* got = &all[256 * block];
    for (unsigned me = 0; me < threads; ++me) {
      check_equal(got[me], uint64_t(100 + (me ^ 1)), "neighbours");
      if (me % 3 == 1) continue;
      check_equal(got[64 + me], me % 3 == 0 || me + 1 == threads ? nobody : uint64_t(201 + me), "some have returned");
      check_equal(got[128 + me], votes, "votes of those that remain");
    }
    check_equal(got[192], uint64_t(300), "its own value");
    check_equal(got[193], uint64_t(1) << 6, "its own vote");
    check_equal(got[194], nobody, "a lane that has returned");
  }
}

void arguments_by_pointer() {
  Program program(sum_source);
  std::vector<float> values(64, 1);
  Buffer<float> in(values), out(std::vector<float>(1));
  Sum args{in.data(), out.data(), 64};
  void* params[] = {&args};
  must(hipModuleLaunchKernel(program.function("block_sum"), 1, 1, 1, 64, 1, 1, 0, nullptr, params, nullptr));
  args = {};  // the launch has its own copy
  must(hipDeviceSynchronize());
  check_equal(out.read()[0], 64.f, "sum");
}

void indices_in_three_dimensions() {
  if (!on_host_engine()) return;  // the prelude has one-dimensional names only
  Program program(R"(
    struct Args { unsigned* out; };
    KERNEL(indices, Args) {
      const OpsHostIndex* i = api->index();
      unsigned thread = i->thread[0] + i->block_dim[0] * (i->thread[1] + i->block_dim[1] * i->thread[2]);
      unsigned block = i->block[0] + i->grid_dim[0] * (i->block[1] + i->grid_dim[1] * i->block[2]);
      args.out[block * 24 + thread] += 1 + block * 24 + thread;
    })");
  struct Args {
    unsigned* out;
  } args{};
  constexpr unsigned count = 2 * 3 * 5 * 24;
  Buffer<unsigned> out(std::vector<unsigned>(count, 0));
  args.out = out.data();
  void* params[] = {&args};
  must(hipModuleLaunchKernel(program.function("indices"), 2, 3, 5, 2, 3, 4, 0, nullptr, params, nullptr));
  must(hipDeviceSynchronize());
  const std::vector<unsigned> seen = out.read();
  for (unsigned i = 0; i < count; ++i) check_equal(seen[i], i + 1, "each thread once");
}

void globals() {
  Program program(R"(
    struct Args { int* out; };
    #if defined(OPS_CUDA)
    __device__
    #endif
    int table[3] = {5, 6, 7};
    KERNEL(read_table, Args) { args.out[0] = table[1]; })");
  if (!on_host_engine()) return;  // C++ mangles the name there
  hipDeviceptr_t ptr = nullptr;
  size_t bytes = 0;
  must(hipModuleGetGlobal(&ptr, &bytes, program.module(), "table"));
  check_equal(bytes, 12u, "size of the global");
  const int replaced[] = {8, 9, 10};
  must(hipMemcpy(ptr, replaced, sizeof replaced, hipMemcpyHostToDevice));
  Buffer<int> out({0});
  struct Args {
    int* out;
  };
  must(launch(program.function("read_table"), 1, 1, Args{out.data()}));
  must(hipDeviceSynchronize());
  check_equal(out.read()[0], 9, "replaced global");
}

void compile_errors() {
  const std::string arch = "--offload-arch=" + device_gfx();
  Compiled broken = compile("this is not C++", {arch});
  check_equal(broken.result, HIPRTC_ERROR_COMPILATION, "broken source");
  check(broken.log.find("test.hip:1") != std::string::npos || !on_host_engine(), "the log names the place");
  Compiled no_arch = compile("", {});
  check_equal(no_arch.result, HIPRTC_ERROR_COMPILATION, "no --offload-arch");
  check(no_arch.log.empty(), "its log is empty");
  Compiled bogus = compile("", {"--offload-arch=gfxnone"});
  check_equal(bogus.result, HIPRTC_ERROR_COMPILATION, "bogus --offload-arch");
  check(!bogus.log.empty(), "its log is not");
  Compiled unknown = compile("", {arch, "--no-such-option"});
  check_equal(unknown.result, HIPRTC_ERROR_COMPILATION, "unknown option");
}

void headers_and_defines() {
  const char* names[] = {"ops/value.h"};
  const char* texts[] = {"#define VALUE 42\n"};
  hiprtcProgram program = nullptr;
  const std::string source =
      "#include \"ops/value.h\"\n#if VALUE != 42 || EXTRA != 3\n#error \"wrong\"\n#endif\nextern \"C\" { int x; }\n";
  check_equal(hiprtcCreateProgram(&program, source.c_str(), nullptr, 1, texts, names), HIPRTC_SUCCESS, "create");
  const std::string arch = "--offload-arch=" + device_gfx();
  const char* options[] = {arch.c_str(), "-DEXTRA=3", "-O3", "-std=c++17"};
  check_equal(hiprtcAddNameExpression(program, "x"), HIPRTC_SUCCESS, "name");
  if (on_host_engine()) check_equal(hiprtcCompileProgram(program, 4, options), HIPRTC_SUCCESS, "compile");
  const char* lowered = nullptr;
  if (on_host_engine()) check_equal(hiprtcGetLoweredName(program, "x", &lowered), HIPRTC_SUCCESS, "lowered name");
  check_equal(hiprtcDestroyProgram(&program), HIPRTC_SUCCESS, "destroy");
}

void code_objects_are_checked() {
  Compiled good = compile(kernel_prelude, {"--offload-arch=" + device_gfx()});
  hipModule_t module = nullptr;
  std::string damaged = good.code;
  damaged[damaged.size() / 2] = char(damaged[damaged.size() / 2] ^ 1);
  check_equal(hipModuleLoadData(&module, damaged.data()), hipErrorInvalidImage, "damaged code object");
  std::string elf = "\177ELF" + std::string(400, '\0');
  check_equal(hipModuleLoadData(&module, elf.data()), hipErrorNoBinaryForGpu, "a real GPU's code object");
  if (!on_host_engine()) return;
  Compiled other = compile(kernel_prelude, {"--offload-arch=gfx1201"});
  check_equal(hipModuleLoadData(&module, other.code.data()), hipErrorNoBinaryForGpu, "another GPU's code object");
  check_equal(hipModuleLoad(&module, "/nonexistent"), hipErrorFileNotFound, "missing file");
  hipFunction_t function = nullptr;
  Program program(sum_source);
  check_equal(hipModuleGetFunction(&function, program.module(), "no_such_kernel"), hipErrorNotFound, "missing kernel");
}

}  // namespace

int main() {
  return run_tests({{"block_sums", block_sums},
                    {"dynamic_shared_memory", dynamic_shared_memory},
                    {"ballots", ballots},
                    {"lanes_that_take_no_part", lanes_that_take_no_part},
                    {"arguments_by_pointer", arguments_by_pointer},
                    {"indices_in_three_dimensions", indices_in_three_dimensions},
                    {"globals", globals},
                    {"compile_errors", compile_errors},
                    {"headers_and_defines", headers_and_defines},
                    {"code_objects_are_checked", code_objects_are_checked}});
}
