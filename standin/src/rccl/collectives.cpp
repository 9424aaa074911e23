// Collectives: each call is checked and enqueued on its stream, at once or at the end of the thread's group.
#include <utility>
#include <vector>

#include "rccl/comm.h"

using namespace standin;

namespace {

/// A call of an open group.
struct Pending {
  std::shared_ptr<Member> member;
  hipStream_t stream;
  EngineStream* engine;
  RcclCall call;
};

thread_local int open_groups = 0;
thread_local std::vector<Pending> pending;

bool point_to_point(const RcclCall& call) { return call.op == RcclOp::Send || call.op == RcclOp::Recv; }

/// Enqueues calls of one communicator on one stream: a collective, or sends and receives that make progress together.
hipError_t enqueue(const Pending& first, std::vector<RcclCall> calls) {
  return engine().run_on_host(*first.engine, {}, [member = first.member, calls = std::move(calls)](void* const*) {
    if (faults().called("rccl link")) return member->clique->stall(*member, ncclSuccess);
    if (faults().called("rccl error")) return member->clique->stall(*member, ncclSystemError);
    if (point_to_point(calls[0])) return member->clique->exchange(*member, calls);
    member->clique->collective(*member, calls[0]);
  });
}

ncclResult_t launch(std::vector<Pending> all) {
  for (size_t at = 0; at < all.size(); ++at) {
    if (!all[at].member) continue;
    std::vector<RcclCall> calls{all[at].call};
    if (point_to_point(all[at].call))
      for (size_t i = at + 1; i < all.size(); ++i) {
        if (all[i].member != all[at].member || !point_to_point(all[i].call)) continue;
        calls.push_back(all[i].call);
        all[i].member.reset();
      }
    if (enqueue(all[at], std::move(calls)) != hipSuccess) return ncclUnhandledCudaError;
  }
  return ncclSuccess;
}

/// Bytes that a call reads and writes.
std::pair<size_t, size_t> extents(const RcclCall& call, int ranks) {
  const size_t bytes = call.count * element_bytes(call.type);
  const size_t all = bytes * size_t(ranks);
  switch (call.op) {
    case RcclOp::AllGather: return {bytes, all};
    case RcclOp::ReduceScatter: return {all, bytes};
    case RcclOp::Send: return {bytes, 0};
    case RcclOp::Recv: return {0, bytes};
    default: return {bytes, bytes};
  }
}

ncclResult_t call(const char* function, ncclComm_t comm, hipStream_t stream, const RcclCall& call) {
  return rccl_call(function, comm, [&](const std::shared_ptr<Member>& member) {
    const int ranks = member->clique->ranks;
    if (!element_bytes(call.type)) return ncclInvalidArgument;
    if (call.reduction != ncclSum && call.reduction != ncclMax) return ncclInvalidArgument;
    if (call.peer < 0 || call.peer >= ranks) return ncclInvalidArgument;
    StreamTarget target;
    if (resolve(function, stream, &target)) return ncclInvalidArgument;
    if (target.device != member->device) {
      misuse("%s: a communicator of device %d, a stream of device %d", function, member->device, target.device);
      return ncclInvalidUsage;
    }
    int current = -1;
    if (hipGetDevice(&current) != hipSuccess || current != member->device) {
      misuse("%s: device %d is current, not that of the communicator, %d", function, current, member->device);
      return ncclInvalidUsage;
    }
    const auto [reads, writes] = extents(call, ranks);
    const bool has_input = call.op != RcclOp::Broadcast || call.peer == member->rank;
    if (has_input && reads && check_device_range(function, "sendbuff", call.send, reads)) return ncclInvalidArgument;
    if (writes && check_device_range(function, "recvbuff", call.recv, writes)) return ncclInvalidArgument;
    if (comm->native) return nccl_call(comm->native, engine().native_stream(*target.engine), call);
    Pending one{member, stream, target.engine, call};
    if (open_groups) {
      pending.push_back(std::move(one));
      return ncclSuccess;
    }
    std::vector<Pending> all;
    all.push_back(std::move(one));
    return launch(std::move(all));
  });
}

}  // namespace

extern "C" {

ncclResult_t ncclAllReduce(const void* send, void* recv, size_t count, ncclDataType_t type, ncclRedOp_t op,
                           ncclComm_t comm, hipStream_t stream) {
  return call(__func__, comm, stream, {RcclOp::AllReduce, send, recv, count, type, op, 0});
}

ncclResult_t ncclReduceScatter(const void* send, void* recv, size_t count, ncclDataType_t type, ncclRedOp_t op,
                               ncclComm_t comm, hipStream_t stream) {
  return call(__func__, comm, stream, {RcclOp::ReduceScatter, send, recv, count, type, op, 0});
}

ncclResult_t ncclAllGather(const void* send, void* recv, size_t count, ncclDataType_t type, ncclComm_t comm,
                           hipStream_t stream) {
  return call(__func__, comm, stream, {RcclOp::AllGather, send, recv, count, type, ncclSum, 0});
}

ncclResult_t ncclBroadcast(const void* send, void* recv, size_t count, ncclDataType_t type, int root, ncclComm_t comm,
                           hipStream_t stream) {
  return call(__func__, comm, stream, {RcclOp::Broadcast, send, recv, count, type, ncclSum, root});
}

ncclResult_t ncclSend(const void* send, size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
                      hipStream_t stream) {
  return call(__func__, comm, stream, {RcclOp::Send, send, nullptr, count, type, ncclSum, peer});
}

ncclResult_t ncclRecv(void* recv, size_t count, ncclDataType_t type, int peer, ncclComm_t comm, hipStream_t stream) {
  return call(__func__, comm, stream, {RcclOp::Recv, nullptr, recv, count, type, ncclSum, peer});
}

ncclResult_t ncclGroupStart() {
  if (faults().called(__func__)) return ncclInternalError;
  if (config().engine == EngineKind::Cuda) return nccl_group_start();
  ++open_groups;
  return ncclSuccess;
}

ncclResult_t ncclGroupEnd() {
  if (config().engine == EngineKind::Cuda) return nccl_group_end();
  if (open_groups == 0) {
    misuse("ncclGroupEnd: no group is open");
    return ncclInvalidUsage;
  }
  if (--open_groups) return ncclSuccess;
  std::vector<Pending> all;
  all.swap(pending);
  if (faults().called(__func__)) return ncclInternalError;
  return launch(std::move(all));
}

}  // extern "C"
