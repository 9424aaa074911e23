#include "rccl/clique.h"

#include <cstring>

#include "core/misuse.h"

namespace standin {

void Clique::wait_for_abort(std::unique_lock<std::mutex>& lock, Member& member) {
  changed.wait(lock, [&] { return member.aborted; });
}

void Clique::collective(Member& member, const RcclCall& call) {
  std::unique_lock<std::mutex> lock(mutex);
  const uint64_t number = member.next++;
  Meeting& meeting = meetings_[number];
  meeting.calls.resize(size_t(ranks));
  for (const auto& other : meeting.calls) {
    if (!other || call.agrees_with(*other)) continue;
    // The real library hangs, or reads and writes outside of the buffers.
    misuse("RCCL: rank %d calls another collective than another rank, or with another size or type", member.rank);
    return wait_for_abort(lock, member);
  }
  meeting.calls[size_t(member.rank)] = call;
  ++meeting.arrived;
  changed.notify_all();
  changed.wait(lock, [&] { return meeting.arrived == ranks || member.aborted; });
  if (meeting.arrived < ranks) {
    meeting.calls[size_t(member.rank)].reset();
    --meeting.arrived;
    return;
  }
  // All ranks are here, so from now on none waits for anything but computing.
  std::vector<RcclCall> all;
  for (const auto& of_rank : meeting.calls) all.push_back(*of_rank);
  lock.unlock();
  const std::vector<char> result = result_of(all, member.rank);
  lock.lock();
  ++meeting.finished;
  changed.notify_all();
  // Results may replace what other ranks still read.
  changed.wait(lock, [&] { return meeting.finished == ranks; });
  if (!result.empty()) std::memcpy(call.recv, result.data(), result.size());
  if (++meeting.left == ranks) meetings_.erase(number);
}

void Clique::exchange(Member& member, const std::vector<RcclCall>& calls) {
  std::unique_lock<std::mutex> lock(mutex);
  std::vector<std::shared_ptr<Letter>> sent;
  for (const RcclCall& call : calls) {
    if (call.op != RcclOp::Send) continue;
    sent.push_back(std::make_shared<Letter>(Letter{call}));
    letters_[{member.rank, call.peer}].push_back(sent.back());
  }
  changed.notify_all();
  for (const RcclCall& call : calls) {
    if (call.op != RcclOp::Recv) continue;
    auto& letters = letters_[{call.peer, member.rank}];
    changed.wait(lock, [&] { return !letters.empty() || member.aborted; });
    if (letters.empty()) break;
    Letter& letter = *letters.front();
    if (letter.call.count != call.count || letter.call.type != call.type) {
      misuse("RCCL: rank %d receives another size or type than rank %d sends", member.rank, call.peer);
      return wait_for_abort(lock, member);
    }
    const size_t bytes = call.count * element_bytes(call.type);
    if (bytes) std::memcpy(call.recv, letter.call.send, bytes);
    letter.taken = true;
    letters.pop_front();
    changed.notify_all();
  }
  changed.wait(lock, [&] {
    bool all_taken = true;
    for (const auto& letter : sent) all_taken = all_taken && letter->taken;
    return all_taken || member.aborted;
  });
  // Memory of a sender that was aborted must not be read any more.
  for (auto& [_, letters] : letters_)
    for (const auto& letter : sent)
      for (auto at = letters.begin(); at != letters.end();) at = *at == letter ? letters.erase(at) : at + 1;
}

void Clique::stall(Member& member, ncclResult_t error) {
  std::unique_lock<std::mutex> lock(mutex);
  member.async_error = error;
  wait_for_abort(lock, member);
}

void Clique::abort(Member& member) {
  std::lock_guard<std::mutex> lock(mutex);
  member.aborted = true;
  changed.notify_all();
}

}  // namespace standin
