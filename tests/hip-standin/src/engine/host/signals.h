// Turns a fault in a kernel into an error of its launch, and explains faults in other code that touches device memory.
#pragma once

#include "engine/host/arena.h"

namespace standin {

/// Installs the handlers, once. Faults that are none of the stand-in's go to the handlers that were there before.
void install_fault_handlers(const Arena* device_memory);

/// Gives the calling thread a stack for signal handlers, so that an overflowing kernel stack is caught too.
void prepare_thread_for_faults();

}  // namespace standin
