// Collectives on NVIDIA GPUs, through NCCL loaded at run time. Its interface is RCCL's, with the same numbers for types and statuses.
#pragma once

#include "rccl/clique.h"

namespace standin {

/// NCCL's communicator.
using NcclComm = void*;

ncclResult_t nccl_init_all(NcclComm* comms, int count, const int* devices);
ncclResult_t nccl_destroy(NcclComm comm);
ncclResult_t nccl_abort(NcclComm comm);
ncclResult_t nccl_async_error(NcclComm comm, ncclResult_t* error);
ncclResult_t nccl_call(NcclComm comm, void* stream, const RcclCall& call);
ncclResult_t nccl_group_start();
ncclResult_t nccl_group_end();

}  // namespace standin
