// Communicators, versions and status names.
#include "rccl/comm.h"

#include <set>

using namespace standin;

namespace {

constexpr int version = 22703;

ncclResult_t check_devices(int count, const int* devices) {
  int known = 0;
  if (hipGetDeviceCount(&known) != hipSuccess) return ncclUnhandledCudaError;
  std::set<int> seen;
  for (int i = 0; i < count; ++i) {
    const int device = devices ? devices[i] : i;
    if (device < 0 || device >= known) return ncclUnhandledCudaError;
    if (!seen.insert(device).second) return ncclInvalidUsage;  // two ranks on one device
  }
  return ncclSuccess;
}

ncclResult_t forget(ncclComm_t comm) {
  if (!live().remove(Kind::RcclComm, comm)) return ncclInvalidArgument;
  comm->member.reset();
  retire(comm);
  return ncclSuccess;
}

}  // namespace

extern "C" {

ncclResult_t ncclGetVersion(int* out) {
  if (faults().called(__func__)) return ncclInternalError;
  if (!out) return ncclInvalidArgument;
  *out = version;
  return ncclSuccess;
}

const char* ncclGetErrorString(ncclResult_t result) {
  switch (result) {
    case ncclSuccess: return "no error";
    case ncclUnhandledCudaError: return "unhandled cuda error";
    case ncclSystemError: return "unhandled system error";
    case ncclInternalError: return "internal error";
    case ncclInvalidArgument: return "invalid argument";
    case ncclInvalidUsage: return "invalid usage";
    case ncclRemoteError: return "remote process exited or there was a network error";
    default: return "unknown result code";
  }
}

const char* ncclGetLastError(ncclComm_t) { return ""; }

ncclResult_t ncclCommInitAll(ncclComm_t* comms, int count, const int* devices) {
  if (faults().called(__func__)) return ncclSystemError;
  if (!comms || count < 1) return ncclInvalidArgument;
  if (const ncclResult_t bad = check_devices(count, devices)) return bad;
  std::vector<NcclComm> native(static_cast<size_t>(count));
  if (config().engine == EngineKind::Cuda)
    if (const ncclResult_t failed = nccl_init_all(native.data(), count, devices)) return failed;
  const auto clique = std::make_shared<Clique>(count);
  for (int rank = 0; rank < count; ++rank) {
    auto member = std::make_shared<Member>();
    member->clique = clique;
    member->rank = rank;
    member->device = devices ? devices[rank] : rank;
    comms[rank] = new ncclComm{std::move(member), native[size_t(rank)]};
    live().add(Kind::RcclComm, comms[rank]);
  }
  return ncclSuccess;
}

ncclResult_t ncclCommDestroy(ncclComm_t comm) {
  return rccl_call(__func__, comm, [&](const std::shared_ptr<Member>&) {
    if (comm->native)
      if (const ncclResult_t failed = nccl_destroy(comm->native)) return failed;
    return forget(comm);
  });
}

ncclResult_t ncclCommAbort(ncclComm_t comm) {
  return rccl_call(__func__, comm, [&](const std::shared_ptr<Member>& member) {
    member->clique->abort(*member);
    if (comm->native)
      if (const ncclResult_t failed = nccl_abort(comm->native)) return failed;
    return forget(comm);
  });
}

ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t* error) {
  return rccl_call(__func__, comm, [&](const std::shared_ptr<Member>& member) {
    if (!error) return ncclInvalidArgument;
    if (comm->native) return nccl_async_error(comm->native, error);
    std::lock_guard<std::mutex> lock(member->clique->mutex);
    *error = member->async_error;
    return ncclSuccess;
  });
}

ncclResult_t ncclCommCount(const ncclComm_t comm, int* count) {
  return rccl_call(__func__, comm, [&](const std::shared_ptr<Member>& member) {
    if (!count) return ncclInvalidArgument;
    *count = member->clique->ranks;
    return ncclSuccess;
  });
}

ncclResult_t ncclCommCuDevice(const ncclComm_t comm, int* device) {
  return rccl_call(__func__, comm, [&](const std::shared_ptr<Member>& member) {
    if (!device) return ncclInvalidArgument;
    *device = member->device;
    return ncclSuccess;
  });
}

ncclResult_t ncclCommUserRank(const ncclComm_t comm, int* rank) {
  return rccl_call(__func__, comm, [&](const std::shared_ptr<Member>& member) {
    if (!rank) return ncclInvalidArgument;
    *rank = member->rank;
    return ncclSuccess;
  });
}

}  // extern "C"
