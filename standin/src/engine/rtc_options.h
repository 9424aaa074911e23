// Parses the hipRTC options that both engines interpret the same way.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace standin {

struct RtcOptions {
  std::string gfx;                                // of --offload-arch
  uint32_t wave_size = 0;                         // what the kernel is compiled for
  std::vector<std::string> defines_and_includes;  // -D, -U, -I
  std::string problem;                            // why the options cannot be used, or empty
};

/// Options that concern only AMD's code generator are accepted and ignored.
RtcOptions read_rtc_options(const std::vector<std::string>& options);

}  // namespace standin
