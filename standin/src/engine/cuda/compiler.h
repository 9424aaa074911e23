// Compiles a kernel source with NVRTC.
#pragma once

#include "engine/engine.h"

namespace standin {

/// `architecture` is like sm_90.
CompileResult compile_for_cuda(const CompileRequest& request, const std::string& architecture);

}  // namespace standin
