// Descriptors of matrices, of products and of preferences, with their attributes.
#include <cstring>

#include "hipblaslt/objects.h"

using namespace standin;

namespace {

/// A field of a descriptor.
struct Field {
  int attribute;
  size_t offset, bytes;
};

#define FIELD(attribute, type, field) {attribute, offsetof(type, field), sizeof(type::field)}
const Field layout_fields[] = {
    FIELD(HIPBLASLT_MATRIX_LAYOUT_BATCH_COUNT, LtLayout, batch_count),
    FIELD(HIPBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, LtLayout, batch_stride),
    FIELD(HIPBLASLT_MATRIX_LAYOUT_TYPE, LtLayout, type),
    FIELD(HIPBLASLT_MATRIX_LAYOUT_ORDER, LtLayout, order),
    FIELD(HIPBLASLT_MATRIX_LAYOUT_ROWS, LtLayout, rows),
    FIELD(HIPBLASLT_MATRIX_LAYOUT_COLS, LtLayout, columns),
    FIELD(HIPBLASLT_MATRIX_LAYOUT_LD, LtLayout, ld),
};
const Field desc_fields[] = {
    FIELD(HIPBLASLT_MATMUL_DESC_TRANSA, LtDesc, trans_a),
    FIELD(HIPBLASLT_MATMUL_DESC_TRANSB, LtDesc, trans_b),
    FIELD(HIPBLASLT_MATMUL_DESC_EPILOGUE, LtDesc, epilogue),
    FIELD(HIPBLASLT_MATMUL_DESC_BIAS_POINTER, LtDesc, bias),
    FIELD(HIPBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, LtDesc, bias_type),
};
const Field preference_fields[] = {
    FIELD(HIPBLASLT_MATMUL_PREF_SEARCH_MODE, LtPreference, search_mode),
    FIELD(HIPBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, LtPreference, workspace_bytes),
};
#undef FIELD

template <size_t N>
const Field* find(const char* function, const Field (&fields)[N], int attribute) {
  for (const Field& field : fields)
    if (field.attribute == attribute) return &field;
  misuse("%s: %d is not an attribute that the stand-in knows", function, attribute);
  return nullptr;
}

template <size_t N>
hipblasStatus_t set(const char* function, Kind kind, const Field (&fields)[N], const void* object, int attribute,
                    const void* from, size_t bytes) {
  if (faults().called(function)) return HIPBLAS_STATUS_INTERNAL_ERROR;
  char* at = lt_object<char>(function, kind, object);
  const Field* field = at ? find(function, fields, attribute) : nullptr;
  if (!field || !from) return HIPBLAS_STATUS_INVALID_VALUE;
  if (bytes != field->bytes) {
    misuse("%s: attribute %d has %zu bytes, not %zu", function, attribute, field->bytes, bytes);
    return HIPBLAS_STATUS_INVALID_VALUE;
  }
  std::memcpy(at + field->offset, from, bytes);
  return HIPBLAS_STATUS_SUCCESS;
}

template <size_t N>
hipblasStatus_t get(const char* function, Kind kind, const Field (&fields)[N], const void* object, int attribute,
                    void* to, size_t bytes, size_t* written) {
  if (faults().called(function)) return HIPBLAS_STATUS_INTERNAL_ERROR;
  const char* at = lt_object<char>(function, kind, object);
  const Field* field = at ? find(function, fields, attribute) : nullptr;
  if (!field) return HIPBLAS_STATUS_INVALID_VALUE;
  if (written) *written = field->bytes;
  if (!to || bytes < field->bytes) return HIPBLAS_STATUS_INVALID_VALUE;
  std::memcpy(to, at + field->offset, field->bytes);
  return HIPBLAS_STATUS_SUCCESS;
}

}  // namespace

extern "C" {

hipblasStatus_t hipblasLtMatrixLayoutCreate(hipblasLtMatrixLayout_t* layout, hipDataType type, uint64_t rows,
                                            uint64_t cols, int64_t ld) {
  if (faults().called(__func__)) return HIPBLAS_STATUS_ALLOC_FAILED;
  LtLayout value;
  value.type = type;
  value.rows = rows;
  value.columns = cols;
  value.ld = ld;
  return lt_create(Kind::HipblasltLayout, layout, value);
}

hipblasStatus_t hipblasLtMatrixLayoutDestroy(const hipblasLtMatrixLayout_t layout) {
  if (faults().called(__func__)) return HIPBLAS_STATUS_INTERNAL_ERROR;
  return lt_destroy(__func__, Kind::HipblasltLayout, layout);
}

hipblasStatus_t hipblasLtMatrixLayoutSetAttribute(hipblasLtMatrixLayout_t layout,
                                                  hipblasLtMatrixLayoutAttribute_t attribute, const void* from,
                                                  size_t bytes) {
  return set(__func__, Kind::HipblasltLayout, layout_fields, layout, attribute, from, bytes);
}

hipblasStatus_t hipblasLtMatrixLayoutGetAttribute(hipblasLtMatrixLayout_t layout,
                                                  hipblasLtMatrixLayoutAttribute_t attribute, void* to, size_t bytes,
                                                  size_t* written) {
  return get(__func__, Kind::HipblasltLayout, layout_fields, layout, attribute, to, bytes, written);
}

hipblasStatus_t hipblasLtMatmulDescCreate(hipblasLtMatmulDesc_t* desc, hipblasComputeType_t compute,
                                          hipDataType scale) {
  if (faults().called(__func__)) return HIPBLAS_STATUS_ALLOC_FAILED;
  LtDesc value;
  value.compute = compute;
  value.scale = scale;
  return lt_create(Kind::HipblasltDesc, desc, value);
}

hipblasStatus_t hipblasLtMatmulDescDestroy(const hipblasLtMatmulDesc_t desc) {
  if (faults().called(__func__)) return HIPBLAS_STATUS_INTERNAL_ERROR;
  return lt_destroy(__func__, Kind::HipblasltDesc, desc);
}

hipblasStatus_t hipblasLtMatmulDescSetAttribute(hipblasLtMatmulDesc_t desc, hipblasLtMatmulDescAttributes_t attribute,
                                                const void* from, size_t bytes) {
  return set(__func__, Kind::HipblasltDesc, desc_fields, desc, attribute, from, bytes);
}

hipblasStatus_t hipblasLtMatmulDescGetAttribute(hipblasLtMatmulDesc_t desc, hipblasLtMatmulDescAttributes_t attribute,
                                                void* to, size_t bytes, size_t* written) {
  return get(__func__, Kind::HipblasltDesc, desc_fields, desc, attribute, to, bytes, written);
}

hipblasStatus_t hipblasLtMatmulPreferenceCreate(hipblasLtMatmulPreference_t* preference) {
  if (faults().called(__func__)) return HIPBLAS_STATUS_ALLOC_FAILED;
  return lt_create(Kind::HipblasltPreference, preference, LtPreference{});
}

hipblasStatus_t hipblasLtMatmulPreferenceDestroy(const hipblasLtMatmulPreference_t preference) {
  if (faults().called(__func__)) return HIPBLAS_STATUS_INTERNAL_ERROR;
  return lt_destroy(__func__, Kind::HipblasltPreference, preference);
}

hipblasStatus_t hipblasLtMatmulPreferenceSetAttribute(hipblasLtMatmulPreference_t preference,
                                                      hipblasLtMatmulPreferenceAttributes_t attribute,
                                                      const void* from, size_t bytes) {
  return set(__func__, Kind::HipblasltPreference, preference_fields, preference, attribute, from, bytes);
}

hipblasStatus_t hipblasLtMatmulPreferenceGetAttribute(hipblasLtMatmulPreference_t preference,
                                                      hipblasLtMatmulPreferenceAttributes_t attribute, void* to,
                                                      size_t bytes, size_t* written) {
  return get(__func__, Kind::HipblasltPreference, preference_fields, preference, attribute, to, bytes, written);
}

}  // extern "C"
