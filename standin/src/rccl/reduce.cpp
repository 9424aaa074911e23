// What a rank receives. Sums are made hop by hop around a ring and rounded to the element's type at every hop, and maxima ignore
// NaN, as in RCCL's kernels.
#include <cmath>
#include <cstring>
#include <type_traits>

#include "core/half.h"
#include "rccl/clique.h"

namespace standin {
namespace {

struct Half {
  uint16_t bits;
  using Wide = float;
  Wide wide() const { return f16_to_float(bits); }
  static Half of(Wide value) { return {float_to_f16(value)}; }
};
struct Brain {
  uint16_t bits;
  using Wide = float;
  Wide wide() const { return bf16_to_float(bits); }
  static Brain of(Wide value) { return {float_to_bf16(value)}; }
};
template <class T>
struct Plain {
  T value;
  using Wide = T;
  Wide wide() const { return value; }
  static Plain of(Wide value) { return {value}; }
};

template <class T>
T combine(ncclRedOp_t reduction, T a, T b) {
  if (reduction == ncclMax) {
    if constexpr (std::is_floating_point_v<T>) return std::fmax(a, b);
    return a < b ? b : a;
  }
  if constexpr (std::is_integral_v<T>) {  // wraps
    using Unsigned = std::make_unsigned_t<T>;
    return T(Unsigned(Unsigned(a) + Unsigned(b)));
  }
  return a + b;
}

/// Elements `first` and following of all ranks, combined around a ring that begins at another rank for each of them.
template <class E>
void reduce(const std::vector<RcclCall>& ranks, size_t first, size_t count, std::vector<char>& out) {
  const size_t n = ranks.size();
  for (size_t i = 0; i < count; ++i) {
    const size_t start = (first + i) % n;
    E sum;
    std::memcpy(&sum, static_cast<const char*>(ranks[start].send) + (first + i) * sizeof(E), sizeof(E));
    for (size_t hop = 1; hop < n; ++hop) {
      E next;
      std::memcpy(&next, static_cast<const char*>(ranks[(start + hop) % n].send) + (first + i) * sizeof(E), sizeof(E));
      sum = E::of(combine<typename E::Wide>(ranks[0].reduction, sum.wide(), next.wide()));
    }
    std::memcpy(out.data() + i * sizeof(E), &sum, sizeof(E));
  }
}

void reduce(const std::vector<RcclCall>& ranks, size_t first, size_t count, std::vector<char>& out) {
  switch (ranks[0].type) {
    case ncclInt8: return reduce<Plain<int8_t>>(ranks, first, count, out);
    case ncclUint8: return reduce<Plain<uint8_t>>(ranks, first, count, out);
    case ncclInt32: return reduce<Plain<int32_t>>(ranks, first, count, out);
    case ncclUint32: return reduce<Plain<uint32_t>>(ranks, first, count, out);
    case ncclInt64: return reduce<Plain<int64_t>>(ranks, first, count, out);
    case ncclUint64: return reduce<Plain<uint64_t>>(ranks, first, count, out);
    case ncclFloat16: return reduce<Half>(ranks, first, count, out);
    case ncclFloat32: return reduce<Plain<float>>(ranks, first, count, out);
    case ncclFloat64: return reduce<Plain<double>>(ranks, first, count, out);
    case ncclBfloat16: return reduce<Brain>(ranks, first, count, out);
    default: return;
  }
}

}  // namespace

size_t element_bytes(ncclDataType_t type) {
  switch (type) {
    case ncclInt8:
    case ncclUint8: return 1;
    case ncclFloat16:
    case ncclBfloat16: return 2;
    case ncclInt32:
    case ncclUint32:
    case ncclFloat32: return 4;
    case ncclInt64:
    case ncclUint64:
    case ncclFloat64: return 8;
    default: return 0;
  }
}

std::vector<char> result_of(const std::vector<RcclCall>& ranks, int rank) {
  const RcclCall& own = ranks[size_t(rank)];
  const size_t bytes = own.count * element_bytes(own.type);
  std::vector<char> result;
  switch (own.op) {
    case RcclOp::AllReduce:
    case RcclOp::ReduceScatter:
      result.resize(bytes);
      reduce(ranks, own.op == RcclOp::AllReduce ? 0 : size_t(rank) * own.count, own.count, result);
      break;
    case RcclOp::AllGather:
      for (const RcclCall& from : ranks) {
        const auto* data = static_cast<const char*>(from.send);
        result.insert(result.end(), data, data + bytes);
      }
      break;
    default: {
      const auto* data = static_cast<const char*>(ranks[size_t(own.peer)].send);
      result.assign(data, data + bytes);
    }
  }
  return result;
}

}  // namespace standin
