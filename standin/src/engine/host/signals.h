// Turns a fault in a kernel into an error of its launch, and explains faults of other code that accesses device memory.
#pragma once

#include "engine/host/arena.h"

namespace standin {

/// Installs the handlers, once. Faults outside the stand-in are passed to the previous handlers.
void install_fault_handlers(const Arena* device_memory);

/// Gives the calling thread a signal stack, so that a kernel's stack overflow is also caught.
void prepare_thread_for_faults();

}  // namespace standin
