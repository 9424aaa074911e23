#include "engine/cuda/compiler.h"

#include "engine/code_object.h"
#include "engine/cuda/driver.h"
#include "engine/rtc_options.h"

namespace standin {
namespace {

std::vector<const char*> pointers(const std::vector<std::string>& texts) {
  std::vector<const char*> out;
  for (const std::string& text : texts) out.push_back(text.c_str());
  return out;
}

/// An NVRTC program, destroyed with the object.
class NvrtcProgram {
 public:
  NvrtcProgram(const Nvrtc& api, const CompileRequest& request) : api_(api) {
    std::vector<const char*> names, texts;
    for (const auto& [name, text] : request.headers) {
      names.push_back(name.c_str());
      texts.push_back(text.c_str());
    }
    if (api.create(&program_, request.source.c_str(), request.name.c_str(), int(names.size()), texts.data(),
                   names.data()) != 0)
      program_ = nullptr;
  }
  ~NvrtcProgram() {
    if (program_) api_.destroy(&program_);
  }
  NvrtcProgram(const NvrtcProgram&) = delete;
  NvrtcProgram& operator=(const NvrtcProgram&) = delete;

  explicit operator bool() const { return program_ != nullptr; }
  bool compile(const std::vector<std::string>& options) {
    const std::vector<const char*> texts = pointers(options);
    return api_.compile(program_, int(texts.size()), texts.data()) == 0;
  }
  std::string log() const { return read(api_.log_size, api_.log).c_str(); }  // without its final zero
  std::string cubin() const { return read(api_.cubin_size, api_.cubin); }

 private:
  std::string read(int (*size)(nvrtcProgram, size_t*), int (*get)(nvrtcProgram, char*)) const {
    size_t bytes = 0;
    if (size(program_, &bytes) != 0) return "";
    std::string text(bytes, '\0');
    return get(program_, text.data()) == 0 ? text : "";
  }

  const Nvrtc& api_;
  nvrtcProgram program_ = nullptr;
};

}  // namespace

CompileResult compile_for_cuda(const CompileRequest& request, const std::string& architecture) {
  CompileResult result;
  const RtcOptions options = read_rtc_options(request.options);
  if (!options.problem.empty()) {
    result.log = options.problem + "\n";
    return result;
  }
  if (options.gfx.empty()) return result;  // like hipRTC: an error with an empty log
  if (!nvrtc()) {
    result.log = "error: HIP_STANDIN_ENGINE=cuda needs libnvrtc\n";
    return result;
  }
  NvrtcProgram program(*nvrtc(), request);
  if (!program) {
    result.log = "error: NVRTC does not take the program\n";
    return result;
  }
  std::vector<std::string> command = {"--gpu-architecture=" + architecture, "--std=c++17", "-DOPS_CUDA=1"};
  command.insert(command.end(), options.defines_and_includes.begin(), options.defines_and_includes.end());
  result.ok = program.compile(command);
  result.log = program.log();
  if (result.ok) result.code_object = pack({EngineKind::Cuda, options.gfx, options.wave_size, program.cubin()});
  return result;
}

}  // namespace standin
