#include "engine/rtc_options.h"

#include <cstdio>
#include <cstdlib>

#include "core/config.h"

namespace standin {
namespace {

bool starts_with(const std::string& text, const char* prefix) { return text.rfind(prefix, 0) == 0; }

// The device's own wave size if it is the target, otherwise the target's default.
uint32_t wave_size_of(const std::string& gfx) {
  for (const DeviceChoice& device : config().devices)
    if (bare_gfx(device.gfx) == bare_gfx(gfx)) return device.wave_size;
  return natural_wave_size(gfx);
}

bool code_generation_only(const std::string& option) {
  for (const char* prefix : {"-O", "-std=", "--std=", "-f", "-m", "-g", "-W", "-w", "--gpu-max-threads-per-block="})
    if (starts_with(option, prefix)) return true;
  return false;
}

}  // namespace

RtcOptions read_rtc_options(const std::vector<std::string>& options) {
  RtcOptions read;
  uint32_t defined_wave = 0;
  for (size_t i = 0; i < options.size(); ++i) {
    std::string option = options[i];
    const bool separate = option == "-D" || option == "-U" || option == "-I" || option == "--offload-arch";
    if (separate) {
      if (++i == options.size()) {
        read.problem = "error: no argument after " + option;
        return read;
      }
      option += (starts_with(option, "--") ? "=" : "") + options[i];
    }
    if (starts_with(option, "--offload-arch=") || starts_with(option, "--gpu-architecture=")) {
      read.gfx = option.substr(option.find('=') + 1);
    } else if (starts_with(option, "-D") || starts_with(option, "-U") || starts_with(option, "-I")) {
      if (starts_with(option, "-DOPS_WAVE=")) defined_wave = uint32_t(std::atoi(option.c_str() + 11));
      read.defines_and_includes.push_back(option);
    } else if (!code_generation_only(option)) {
      read.problem = "error: unknown argument: '" + option + "'";
      return read;
    }
  }
  // hipRTC of ROCm 7.2 knows gfx1250; that of 6.4 does not.
  const bool too_new = bare_gfx(read.gfx) == "gfx1250" && config().rocm.before(7, 2);
  if (!read.gfx.empty() && (too_new || !plausible_gfx(read.gfx))) {
    read.problem = "error: invalid target ID '" + read.gfx + "'";
    if (config().abort_on_bad_arch) {
      std::fprintf(stderr, "hip-standin: hiprtcCompileProgram: %s\n", read.problem.c_str());
      std::abort();
    }
    return read;
  }
  read.wave_size = defined_wave ? defined_wave : wave_size_of(read.gfx);
  if (!defined_wave) read.defines_and_includes.push_back("-DOPS_WAVE=" + std::to_string(read.wave_size));
  return read;
}

}  // namespace standin
