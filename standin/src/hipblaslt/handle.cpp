// Handles and the version.
#include "hipblaslt/objects.h"

using namespace standin;

namespace {
constexpr int version = 100200;  // 1.2.0: major * 100000 + minor * 100 + patch
constexpr size_t handle_bytes = 4096;
}  // namespace

extern "C" {

// Without a device, the real library returns success and leaves the caller's pointer unchanged.
hipblasStatus_t hipblasLtCreate(hipblasLtHandle_t* handle) {
  if (faults().called(__func__)) return HIPBLAS_STATUS_ALLOC_FAILED;
  if (!handle) return HIPBLAS_STATUS_INVALID_VALUE;
  LtHandle made;
  if (hipGetDevice(&made.device) != hipSuccess) return HIPBLAS_STATUS_SUCCESS;
  if (const hipError_t error = engine().allocate(made.device, handle_bytes, &made.memory)) return lt_from_hip(error);
  const hipblasStatus_t status = lt_create(Kind::HipblasltHandle, handle, made);
  if (status != HIPBLAS_STATUS_SUCCESS) engine().release(made.device, made.memory);
  return status;
}

hipblasStatus_t hipblasLtDestroy(const hipblasLtHandle_t handle) {
  if (faults().called(__func__)) return HIPBLAS_STATUS_INTERNAL_ERROR;
  LtHandle* h = lt_object<LtHandle>(__func__, Kind::HipblasltHandle, handle);
  if (!h) return HIPBLAS_STATUS_INVALID_VALUE;
  const hipError_t error = engine().release(h->device, h->memory);
  const hipblasStatus_t destroyed = lt_destroy(__func__, Kind::HipblasltHandle, handle);
  return error ? lt_from_hip(error) : destroyed;
}

hipblasStatus_t hipblasLtGetVersion(hipblasLtHandle_t handle, int* out) {
  if (faults().called(__func__)) return HIPBLAS_STATUS_INTERNAL_ERROR;
  if (!handle) return HIPBLAS_STATUS_NOT_INITIALIZED;
  if (!lt_object<LtHandle>(__func__, Kind::HipblasltHandle, handle) || !out) return HIPBLAS_STATUS_INVALID_VALUE;
  *out = version;
  return HIPBLAS_STATUS_SUCCESS;
}

}  // extern "C"
