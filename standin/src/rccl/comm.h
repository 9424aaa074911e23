// A communicator's handle, and the common frame of every entry point.
#pragma once

#include <memory>
#include <new>

#include "core/faults.h"
#include "core/live.h"
#include "core/misuse.h"
#include "hip/objects.h"
#include "rccl/clique.h"
#include "rccl/nccl.h"

struct ncclComm {
  std::shared_ptr<standin::Member> member;
  standin::NcclComm native = nullptr;  // on the cuda engine
};

namespace standin {

/// Calls `body` with the communicator's member if the handle is alive and no fault is due.
template <class Body>
ncclResult_t rccl_call(const char* function, ncclComm_t comm, Body&& body) {
  if (faults().called(function)) return ncclInternalError;
  if (!live().contains(Kind::RcclComm, comm)) {
    misuse("%s: %p is not a live communicator", function, static_cast<void*>(comm));
    return ncclInvalidArgument;
  }
  try {
    return body(comm->member);
  } catch (const std::bad_alloc&) {
    return ncclSystemError;
  }
}

}  // namespace standin
