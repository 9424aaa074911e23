// Compiles a kernel source into a shared library with the machine's C++ compiler.
#pragma once

#include "engine/engine.h"

namespace standin {

CompileResult compile_for_host(const CompileRequest& request);

}  // namespace standin
