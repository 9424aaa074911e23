// The ranks that belong together, and where their work meets. Work of a rank runs on its stream, on the host engine; it waits
// for that of the other ranks, as kernels of RCCL do.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "rccl_api.h"

namespace standin {

enum class RcclOp { AllReduce, AllGather, ReduceScatter, Broadcast, Send, Recv };

/// A call's arguments. `peer` is the root of a broadcast, or the other rank of a send or receive.
struct RcclCall {
  RcclOp op;
  const void* send;
  void* recv;
  size_t count;
  ncclDataType_t type;
  ncclRedOp_t reduction;
  int peer;

  bool agrees_with(const RcclCall& other) const {
    return op == other.op && count == other.count && type == other.type && reduction == other.reduction &&
           (op != RcclOp::Broadcast || peer == other.peer);
  }
};

size_t element_bytes(ncclDataType_t type);

/// Computes what one rank receives, from the memory of all ranks.
std::vector<char> result_of(const std::vector<RcclCall>& ranks, int rank);

/// What a communicator is, apart from its handle: work that still runs keeps it.
struct Clique;
struct Member {
  std::shared_ptr<Clique> clique;
  int rank = 0;
  int device = 0;
  uint64_t next = 0;     // the number of its next collective; used by its stream's work only
  bool aborted = false;  // guarded by the clique's mutex
  ncclResult_t async_error = ncclSuccess;  // guarded by the clique's mutex
};

struct Clique {
  explicit Clique(int count) : ranks(count) {}

  /// Joins the collective with the member's next number. Returns when all ranks have their results, or the member was aborted.
  void collective(Member& member, const RcclCall& call);
  /// Sends and receives that make progress together.
  void exchange(Member& member, const std::vector<RcclCall>& calls);
  /// Waits until the member is aborted, as if a link had failed.
  void stall(Member& member, ncclResult_t error);
  void abort(Member& member);

  const int ranks;
  std::mutex mutex;
  std::condition_variable changed;

 private:
  struct Meeting {
    std::vector<std::optional<RcclCall>> calls;
    int arrived = 0, finished = 0, left = 0;
  };
  struct Letter {
    RcclCall call;
    bool taken = false;
  };
  void wait_for_abort(std::unique_lock<std::mutex>& lock, Member& member);

  std::map<uint64_t, Meeting> meetings_;
  std::map<std::pair<int, int>, std::deque<std::shared_ptr<Letter>>> letters_;  // by sender and receiver
};

}  // namespace standin
