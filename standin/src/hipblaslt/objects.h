// hipBLASLt's handles and descriptors. Callers hold them as pointers to opaque structs.
#pragma once

#include <new>

#include "core/faults.h"
#include "core/live.h"
#include "core/misuse.h"
#include "hip/objects.h"
#include "hipblaslt_api.h"

namespace standin {

struct LtHandle {
  int device = 0;
  void* memory = nullptr;  // the real library allocates some with every handle, too
};

/// A column-major matrix, or a batch of them.
struct LtLayout {
  int32_t type = HIP_R_32F;
  uint64_t rows = 0, columns = 0;
  int64_t ld = 0;
  int32_t order = 0;  // HIPBLASLT_ORDER_COL
  int32_t batch_count = 1;
  int64_t batch_stride = 0;
};

struct LtDesc {
  int32_t compute = HIPBLAS_COMPUTE_32F, scale = HIP_R_32F;
  int32_t trans_a = HIPBLAS_OP_N, trans_b = HIPBLAS_OP_N;
  int32_t epilogue = HIPBLASLT_EPILOGUE_DEFAULT;
  const void* bias = nullptr;
  int32_t bias_type = HIP_R_32F;
};

struct LtPreference {
  int32_t search_mode = 0;
  uint64_t workspace_bytes = 0;
};

inline hipblasStatus_t lt_from_hip(hipError_t error) {
  switch (error) {
    case hipSuccess: return HIPBLAS_STATUS_SUCCESS;
    case hipErrorOutOfMemory: return HIPBLAS_STATUS_ALLOC_FAILED;
    case hipErrorInvalidValue:
    case hipErrorInvalidHandle: return HIPBLAS_STATUS_INVALID_VALUE;
    default: return HIPBLAS_STATUS_INTERNAL_ERROR;
  }
}

/// The object behind a pointer that the caller holds; null, with a misuse, if it is not alive.
template <class T>
T* lt_object(const char* function, Kind kind, const void* pointer) {
  if (live().contains(kind, pointer)) return static_cast<T*>(const_cast<void*>(pointer));
  misuse("%s: %p is not a live %s", function, pointer, kind_name(kind));
  return nullptr;
}

/// Makes an object that the caller holds as a `Held`.
template <class T, class Held>
hipblasStatus_t lt_create(Kind kind, Held* out, const T& value) {
  if (!out) return HIPBLAS_STATUS_INVALID_VALUE;
  *out = nullptr;
  T* created = new (std::nothrow) T(value);
  if (!created) return HIPBLAS_STATUS_ALLOC_FAILED;
  live().add(kind, created);
  *out = reinterpret_cast<Held>(created);
  return HIPBLAS_STATUS_SUCCESS;
}

inline hipblasStatus_t lt_destroy(const char* function, Kind kind, const void* pointer) {
  if (!lt_object<void>(function, kind, pointer)) return HIPBLAS_STATUS_INVALID_VALUE;
  live().remove(kind, pointer);
  retire(pointer);
  return HIPBLAS_STATUS_SUCCESS;
}

}  // namespace standin
