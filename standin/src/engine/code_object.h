// The output of hiprtcGetCode and input of hipModuleLoadData: a header that names the target, then the engine's binary.
#pragma once

#include <cstdint>
#include <string>

#include "core/config.h"
#include "hip_api.h"

namespace standin {

struct CodeObject {
  EngineKind engine;
  std::string gfx;  // as given to --offload-arch
  uint32_t wave_size;
  std::string payload;
};

std::string pack(const CodeObject& object);

/// hipErrorInvalidImage for damaged bytes; hipErrorNoBinaryForGpu for code of a real GPU or of the other engine.
hipError_t unpack(const void* image, size_t bytes, EngineKind engine, CodeObject* out);

}  // namespace standin
