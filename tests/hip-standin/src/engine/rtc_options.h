// The part of hipRTC's command line that both engines read in the same way.
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

/// Options that only concern AMD's code generator are accepted and dropped.
RtcOptions read_rtc_options(const std::vector<std::string>& options);

}  // namespace standin
