#include "rccl/nccl.h"

#include <dlfcn.h>

#include <cstdio>

namespace standin {
namespace {

struct Nccl {
  ncclResult_t (*init_all)(NcclComm*, int, const int*);
  ncclResult_t (*destroy)(NcclComm);
  ncclResult_t (*abort)(NcclComm);
  ncclResult_t (*async_error)(NcclComm, ncclResult_t*);
  ncclResult_t (*all_reduce)(const void*, void*, size_t, int, int, NcclComm, void*);
  ncclResult_t (*reduce_scatter)(const void*, void*, size_t, int, int, NcclComm, void*);
  ncclResult_t (*all_gather)(const void*, void*, size_t, int, NcclComm, void*);
  ncclResult_t (*broadcast)(const void*, void*, size_t, int, int, NcclComm, void*);
  ncclResult_t (*send)(const void*, size_t, int, int, NcclComm, void*);
  ncclResult_t (*recv)(void*, size_t, int, int, NcclComm, void*);
  ncclResult_t (*group_start)();
  ncclResult_t (*group_end)();
};

template <class F>
bool find(void* library, const char* name, F& function) {
  function = reinterpret_cast<F>(dlsym(library, name));
  return function != nullptr;
}

const Nccl* load() {
  for (const char* name : {"libnccl.so.2", "libnccl.so"}) {
    void* library = dlopen(name, RTLD_NOW | RTLD_LOCAL);
    if (!library) continue;
    static Nccl n;
    if (find(library, "ncclCommInitAll", n.init_all) && find(library, "ncclCommDestroy", n.destroy) &&
        find(library, "ncclCommAbort", n.abort) && find(library, "ncclCommGetAsyncError", n.async_error) &&
        find(library, "ncclAllReduce", n.all_reduce) && find(library, "ncclReduceScatter", n.reduce_scatter) &&
        find(library, "ncclAllGather", n.all_gather) && find(library, "ncclBroadcast", n.broadcast) &&
        find(library, "ncclSend", n.send) && find(library, "ncclRecv", n.recv) &&
        find(library, "ncclGroupStart", n.group_start) && find(library, "ncclGroupEnd", n.group_end))
      return &n;
  }
  std::fprintf(stderr, "hip-standin: RCCL on the cuda engine needs NCCL, libnccl.so.2, which cannot be loaded\n");
  return nullptr;
}

const Nccl* nccl() {
  static const Nccl* const library = load();
  return library;
}

}  // namespace

// The other functions are called for communicators only, which the first one makes.
ncclResult_t nccl_init_all(NcclComm* comms, int count, const int* devices) {
  return nccl() ? nccl()->init_all(comms, count, devices) : ncclSystemError;
}

ncclResult_t nccl_destroy(NcclComm comm) { return nccl()->destroy(comm); }
ncclResult_t nccl_abort(NcclComm comm) { return nccl()->abort(comm); }
ncclResult_t nccl_async_error(NcclComm comm, ncclResult_t* error) { return nccl()->async_error(comm, error); }

ncclResult_t nccl_call(NcclComm comm, void* stream, const RcclCall& c) {
  const Nccl& n = *nccl();
  switch (c.op) {
    case RcclOp::AllReduce: return n.all_reduce(c.send, c.recv, c.count, c.type, c.reduction, comm, stream);
    case RcclOp::ReduceScatter: return n.reduce_scatter(c.send, c.recv, c.count, c.type, c.reduction, comm, stream);
    case RcclOp::AllGather: return n.all_gather(c.send, c.recv, c.count, c.type, comm, stream);
    case RcclOp::Broadcast: return n.broadcast(c.send, c.recv, c.count, c.type, c.peer, comm, stream);
    case RcclOp::Send: return n.send(c.send, c.count, c.type, c.peer, comm, stream);
    default: return n.recv(c.recv, c.count, c.type, c.peer, comm, stream);
  }
}

ncclResult_t nccl_group_start() { return nccl() ? nccl()->group_start() : ncclSystemError; }
ncclResult_t nccl_group_end() { return nccl() ? nccl()->group_end() : ncclSystemError; }

}  // namespace standin
