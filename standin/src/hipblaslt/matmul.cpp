// Choosing a kernel for a product, and running it.
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <filesystem>

#include "hipblaslt/product.h"

using namespace standin;

namespace {

constexpr uint64_t algorithm_mark = 0x6c74616c676f5f31;  // in every algorithm that the stand-in hands out
constexpr size_t alignment = 16;                          // of a workspace

// Where the real library has its kernels: HIPBLASLT_TENSILE_LIBPATH, or else a folder next to it.
std::filesystem::path tensile_folder() {
  if (const char* given = std::getenv("HIPBLASLT_TENSILE_LIBPATH")) return given;
  Dl_info info;
  if (!dladdr(reinterpret_cast<void*>(&hipblasLtCreate), &info)) return {};
  return std::filesystem::path(info.dli_fname).parent_path() / "hipblaslt" / "library";
}

// The real library carries on without its kernels and dereferences a null pointer.
void require_tensile_library(int device) {
  if (config().engine == EngineKind::Cuda) return;
  const std::string gfx = bare_gfx(engine().devices()[size_t(device)].gfx);
  const auto file = tensile_folder() / ("TensileLibrary_lazy_" + gfx + ".dat");
  std::error_code missing;
  if (!config().no_tensile && std::filesystem::exists(file, missing)) return;
  std::fprintf(stderr, "hip-standin: hipBLASLt error: cannot read %s\n", file.c_str());
  std::abort();
}

// The bytes that a batch of matrices spans.
DeviceRange extent(const void* data, const LtLayout& m) {
  if (m.rows == 0 || m.columns == 0) return {nullptr, 0};
  const uint64_t last = (m.rows - 1) + (m.columns - 1) * uint64_t(m.ld) +
                        uint64_t(m.batch_count - 1) * uint64_t(m.batch_stride);
  return {const_cast<void*>(data), (last + 1) * lt_element_bytes(m.type)};
}

// Checks that the algorithm was chosen for this product, and that the workspace is as large as it needs.
bool fits(const LtProduct& product, const hipblasLtMatmulAlgo_t& algorithm, const void* workspace, size_t bytes) {
  uint64_t stamp[2];
  static_assert(sizeof stamp == sizeof algorithm.data);
  std::memcpy(stamp, algorithm.data, sizeof stamp);
  if (stamp[0] != algorithm_mark || stamp[1] != kernel_of(product)) {
    misuse("%s: the algorithm was not chosen for this product", product.function);
    return false;
  }
  const size_t needed = workspace_of(product);
  if (needed == 0) return true;
  if (bytes >= needed && workspace && reinterpret_cast<uintptr_t>(workspace) % alignment == 0) return true;
  misuse("%s: a workspace of %zu bytes at %p, but %zu are needed, aligned to %zu", product.function, bytes, workspace,
         needed, alignment);
  return false;
}

}  // namespace

extern "C" {

hipblasStatus_t hipblasLtMatmulAlgoGetHeuristic(hipblasLtHandle_t handle, hipblasLtMatmulDesc_t desc,
                                                hipblasLtMatrixLayout_t a, hipblasLtMatrixLayout_t b,
                                                hipblasLtMatrixLayout_t c, hipblasLtMatrixLayout_t d,
                                                hipblasLtMatmulPreference_t preference, int requested,
                                                hipblasLtMatmulHeuristicResult_t results[], int* found) {
  if (faults().called(__func__)) return HIPBLAS_STATUS_INTERNAL_ERROR;
  const LtHandle* h = lt_object<LtHandle>(__func__, Kind::HipblasltHandle, handle);
  const LtPreference* wanted = lt_object<LtPreference>(__func__, Kind::HipblasltPreference, preference);
  LtProduct product;
  if (!h || !wanted || requested < 1 || !results || !found) return HIPBLAS_STATUS_INVALID_VALUE;
  if (const hipblasStatus_t status = describe(__func__, desc, a, b, c, d, &product)) return status;
  require_tensile_library(h->device);
  *found = 0;
  const size_t workspace = workspace_of(product);
  if (!has_kernel(product) || workspace > wanted->workspace_bytes) return HIPBLAS_STATUS_SUCCESS;
  const uint64_t stamp[2] = {algorithm_mark, kernel_of(product)};
  std::memcpy(results[0].algo.data, stamp, sizeof stamp);
  results[0].algo.max_workspace_bytes = wanted->workspace_bytes;
  results[0].workspaceSize = workspace;
  results[0].state = HIPBLAS_STATUS_SUCCESS;
  *found = 1;
  return HIPBLAS_STATUS_SUCCESS;
}

hipblasStatus_t hipblasLtMatmul(hipblasLtHandle_t handle, hipblasLtMatmulDesc_t desc, const void* alpha, const void* a,
                                hipblasLtMatrixLayout_t a_layout, const void* b, hipblasLtMatrixLayout_t b_layout,
                                const void* beta, const void* c, hipblasLtMatrixLayout_t c_layout, void* d,
                                hipblasLtMatrixLayout_t d_layout, const hipblasLtMatmulAlgo_t* algorithm,
                                void* workspace, size_t workspace_bytes, hipStream_t stream) {
  if (faults().called(__func__)) return HIPBLAS_STATUS_INTERNAL_ERROR;
  const LtHandle* h = lt_object<LtHandle>(__func__, Kind::HipblasltHandle, handle);
  LtProduct product;
  if (!h || !alpha || !beta || !algorithm) return HIPBLAS_STATUS_INVALID_VALUE;
  if (const hipblasStatus_t status = describe(__func__, desc, a_layout, b_layout, c_layout, d_layout, &product))
    return status;
  if (!fits(product, *algorithm, workspace, workspace_bytes)) return HIPBLAS_STATUS_INVALID_VALUE;
  StreamTarget target;
  if (const hipError_t error = resolve(__func__, stream, &target)) return lt_from_hip(error);
  if (target.device != h->device) {
    misuse("%s: a handle of device %d, a stream of device %d", __func__, h->device, target.device);
    return HIPBLAS_STATUS_INVALID_VALUE;
  }
  if (product.d.rows == 0 || product.d.columns == 0) return HIPBLAS_STATUS_SUCCESS;
  float scale, add;  // read now: they may be gone when the work runs
  std::memcpy(&scale, alpha, sizeof scale);
  std::memcpy(&add, beta, sizeof add);
  const DeviceRange nothing{nullptr, 0};
  const size_t bias_bytes = product.d.rows * lt_element_bytes(product.desc.bias_type);
  const std::vector<DeviceRange> ranges = {
      extent(a, product.a),
      extent(b, product.b),
      add != 0 ? extent(c, product.c) : nothing,
      product.has_bias() ? DeviceRange{const_cast<void*>(product.desc.bias), bias_bytes} : nothing,
      extent(d, product.d),
      workspace_of(product) ? DeviceRange{workspace, workspace_of(product)} : nothing};
  static const char* const roles[] = {"A", "B", "C", "the bias", "D", "the workspace"};
  for (size_t i = 0; i < ranges.size(); ++i) {
    if (ranges[i].bytes == 0) continue;
    if (!ranges[i].ptr) {
      misuse("%s: %s is null", __func__, roles[i]);
      return HIPBLAS_STATUS_INVALID_VALUE;
    }
    if (const hipError_t error = check_device_range(__func__, roles[i], ranges[i].ptr, ranges[i].bytes))
      return lt_from_hip(error);
  }
  return lt_from_hip(engine().run_on_host(*target.engine, ranges, [=](void* const* at) {
    compute(product, scale, add, {at[0], at[1], at[2], product.has_bias() ? at[3] : nullptr, at[4], at[5]});
  }));
}

}  // extern "C"
