// The part of MIOpen's C interface that the stand-in implements, as published (with the beta functions).
// src/miopen/absent.cpp lists the other functions that it exports.
#pragma once

#include <cstddef>
#include <cstdint>

#include "hip_api.h"

#ifdef STANDIN_REAL_HEADERS
#include <miopen/miopen.h>
#else

typedef enum {
  miopenStatusSuccess = 0,
  miopenStatusNotInitialized = 1,
  miopenStatusInvalidValue = 2,
  miopenStatusBadParm = 3,
  miopenStatusAllocFailed = 4,
  miopenStatusInternalError = 5,
  miopenStatusNotImplemented = 6,
  miopenStatusUnknownError = 7,
  miopenStatusUnsupportedOp = 8,
  miopenStatusGpuOperationsSkipped = 9,
  miopenStatusVersionMismatch = 10,
} miopenStatus_t;

typedef enum {
  miopenHalf = 0,
  miopenFloat = 1,
  miopenInt32 = 2,
  miopenInt8 = 3,
  miopenBFloat16 = 5,
  miopenDouble = 6,
  miopenInt64 = 9,
} miopenDataType_t;

typedef enum {
  miopenTensorNCHW = 0,
  miopenTensorNHWC = 1,
  miopenTensorNCDHW = 7,
  miopenTensorNDHWC = 8
} miopenTensorLayout_t;

typedef enum {
  miopenActivationPASTHRU = 0,
  miopenActivationLOGISTIC = 1,
  miopenActivationTANH = 2,
  miopenActivationRELU = 3,
  miopenActivationSOFTRELU = 4,
  miopenActivationABS = 5,
  miopenActivationPOWER = 6,
  miopenActivationCLIPPEDRELU = 7,
  miopenActivationLEAKYRELU = 8,
  miopenActivationELU = 9,
} miopenActivationMode_t;

typedef enum { MIOPEN_SOFTMAX_FAST = 0, MIOPEN_SOFTMAX_ACCURATE = 1, MIOPEN_SOFTMAX_LOG = 2 } miopenSoftmaxAlgorithm_t;
typedef enum { MIOPEN_SOFTMAX_MODE_INSTANCE = 0, MIOPEN_SOFTMAX_MODE_CHANNEL = 1 } miopenSoftmaxMode_t;

typedef enum {
  MIOPEN_ELEMENTWISE_AFFINE = 0,
  MIOPEN_WEIGHT_BIAS = 1,
  MIOPEN_ELEMENTWISE_AFFINE_FUSED_ADD = 2,
  MIOPEN_WEIGHT_BIAS_FUSED_ADD = 3,
  MIOPEN_ELEMENTWISE_AFFINE_T5 = 4,
  MIOPEN_WEIGHT_BIAS_T5 = 5,
} miopenNormMode_t;

typedef enum {
  miopenPoolingMax = 0,
  miopenPoolingAverage = 1,
  miopenPoolingAverageInclusive = 2,
} miopenPoolingMode_t;

typedef enum {
  miopenConvolution = 0,
  miopenTranspose = 1,
  miopenGroupConv = 2,
  miopenDepthwise = 3,
} miopenConvolutionMode_t;

typedef enum {
  miopenConvolutionAlgoGEMM = 0,
  miopenConvolutionAlgoDirect = 1,
  miopenConvolutionAlgoFFT = 2,
  miopenConvolutionAlgoWinograd = 3,
  miopenConvolutionAlgoImplicitGEMM = 5,
} miopenConvAlgorithm_t;

typedef struct {
  float time;  // in milliseconds
  size_t workspace_size;
  uint64_t solution_id;
  miopenConvAlgorithm_t algorithm;
} miopenConvSolution_t;

typedef enum { miopenBNPerActivation = 0, miopenBNSpatial = 1 } miopenBatchNormMode_t;

typedef struct miopenHandle* miopenHandle_t;
typedef struct miopenTensorDescriptor* miopenTensorDescriptor_t;
typedef struct miopenActivationDescriptor* miopenActivationDescriptor_t;
typedef struct miopenPoolingDescriptor* miopenPoolingDescriptor_t;
typedef struct miopenConvolutionDescriptor* miopenConvolutionDescriptor_t;
typedef hipStream_t miopenAcceleratorQueue_t;
typedef void* (*miopenAllocatorFunction)(void* context, size_t bytes);
typedef void (*miopenDeallocatorFunction)(void* context, void* memory);

#pragma GCC visibility push(default)
extern "C" {
const char* miopenGetErrorString(miopenStatus_t status);
miopenStatus_t miopenGetVersion(size_t* major, size_t* minor, size_t* patch);
miopenStatus_t miopenCreate(miopenHandle_t* handle);
miopenStatus_t miopenCreateWithStream(miopenHandle_t* handle, miopenAcceleratorQueue_t stream);
miopenStatus_t miopenDestroy(miopenHandle_t handle);
miopenStatus_t miopenSetStream(miopenHandle_t handle, miopenAcceleratorQueue_t stream);
miopenStatus_t miopenGetStream(miopenHandle_t handle, miopenAcceleratorQueue_t* stream);
miopenStatus_t miopenSetAllocator(miopenHandle_t handle, miopenAllocatorFunction allocate,
                                  miopenDeallocatorFunction release, void* context);
miopenStatus_t miopenEnableProfiling(miopenHandle_t handle, bool enable);
miopenStatus_t miopenGetKernelTime(miopenHandle_t handle, float* milliseconds);

miopenStatus_t miopenCreateTensorDescriptor(miopenTensorDescriptor_t* descriptor);
miopenStatus_t miopenDestroyTensorDescriptor(miopenTensorDescriptor_t descriptor);
miopenStatus_t miopenSet4dTensorDescriptor(miopenTensorDescriptor_t descriptor, miopenDataType_t type, int n, int c,
                                           int h, int w);
miopenStatus_t miopenSet4dTensorDescriptorEx(miopenTensorDescriptor_t descriptor, miopenDataType_t type, int n, int c,
                                             int h, int w, int n_stride, int c_stride, int h_stride, int w_stride);
miopenStatus_t miopenGet4dTensorDescriptor(miopenTensorDescriptor_t descriptor, miopenDataType_t* type, int* n, int* c,
                                           int* h, int* w, int* n_stride, int* c_stride, int* h_stride, int* w_stride);
miopenStatus_t miopenSetNdTensorDescriptorWithLayout(miopenTensorDescriptor_t descriptor, miopenDataType_t type,
                                                     miopenTensorLayout_t layout, const int* lengths, int count);
miopenStatus_t miopenSetTensorDescriptor(miopenTensorDescriptor_t descriptor, miopenDataType_t type, int count,
                                         const int* lengths, const int* strides);
miopenStatus_t miopenSetTensorDescriptorV2(miopenTensorDescriptor_t descriptor, miopenDataType_t type, int count,
                                           const size_t* lengths, const size_t* strides);
miopenStatus_t miopenGetTensorDescriptorSize(miopenTensorDescriptor_t descriptor, int* count);
miopenStatus_t miopenGetTensorDescriptor(miopenTensorDescriptor_t descriptor, miopenDataType_t* type, int* lengths,
                                         int* strides);

miopenStatus_t miopenSoftmaxForward(miopenHandle_t handle, const void* alpha, const miopenTensorDescriptor_t x_desc,
                                    const void* x, const void* beta, const miopenTensorDescriptor_t y_desc, void* y);
miopenStatus_t miopenSoftmaxForward_V2(miopenHandle_t handle, const void* alpha, const miopenTensorDescriptor_t x_desc,
                                       const void* x, const void* beta, const miopenTensorDescriptor_t y_desc, void* y,
                                       miopenSoftmaxAlgorithm_t algorithm, miopenSoftmaxMode_t mode);

miopenStatus_t miopenCreateActivationDescriptor(miopenActivationDescriptor_t* descriptor);
miopenStatus_t miopenSetActivationDescriptor(const miopenActivationDescriptor_t descriptor, miopenActivationMode_t mode,
                                             double alpha, double beta, double gamma);
miopenStatus_t miopenGetActivationDescriptor(const miopenActivationDescriptor_t descriptor,
                                             miopenActivationMode_t* mode, double* alpha, double* beta, double* gamma);
miopenStatus_t miopenDestroyActivationDescriptor(miopenActivationDescriptor_t descriptor);
miopenStatus_t miopenActivationForward(miopenHandle_t handle, const miopenActivationDescriptor_t descriptor,
                                       const void* alpha, const miopenTensorDescriptor_t x_desc, const void* x,
                                       const void* beta, const miopenTensorDescriptor_t y_desc, void* y);

miopenStatus_t miopenLayerNormForward(miopenHandle_t handle, miopenNormMode_t mode,
                                      const miopenTensorDescriptor_t x_desc, const void* x,
                                      const miopenTensorDescriptor_t weight_desc, const void* weight,
                                      const miopenTensorDescriptor_t bias_desc, const void* bias, const float epsilon,
                                      const int32_t normalized_dim, const miopenTensorDescriptor_t y_desc, void* y,
                                      const miopenTensorDescriptor_t mean_desc, void* mean,
                                      const miopenTensorDescriptor_t rstd_desc, void* rstd);
miopenStatus_t miopenAddLayerNormForward(
    miopenHandle_t handle, miopenNormMode_t mode, const miopenTensorDescriptor_t x_desc, const void* x,
    const miopenTensorDescriptor_t x2_desc, const void* x2, const miopenTensorDescriptor_t weight_desc,
    const void* weight, const miopenTensorDescriptor_t bias_desc, const void* bias, const float epsilon,
    const int32_t normalized_dim, const miopenTensorDescriptor_t y_desc, void* y,
    const miopenTensorDescriptor_t mean_desc, void* mean, const miopenTensorDescriptor_t rstd_desc, void* rstd);
miopenStatus_t miopenT5LayerNormForward(miopenHandle_t handle, miopenNormMode_t mode,
                                        const miopenTensorDescriptor_t x_desc, const void* x,
                                        const miopenTensorDescriptor_t weight_desc, const void* weight,
                                        const float epsilon, const miopenTensorDescriptor_t y_desc, void* y,
                                        const miopenTensorDescriptor_t rstd_desc, void* rstd);
miopenStatus_t miopenGroupNormForward(
    miopenHandle_t handle, miopenNormMode_t mode, const miopenTensorDescriptor_t x_desc, const void* x,
    const miopenTensorDescriptor_t weight_desc, const void* weight, const miopenTensorDescriptor_t bias_desc,
    const void* bias, const uint64_t num_groups, const float epsilon, const miopenTensorDescriptor_t y_desc, void* y,
    const miopenTensorDescriptor_t mean_desc, void* mean, const miopenTensorDescriptor_t rstd_desc, void* rstd);
miopenStatus_t miopenRoPEForward(miopenHandle_t handle, const miopenTensorDescriptor_t x_desc, const void* x,
                                 const miopenTensorDescriptor_t cos_desc, const void* cos,
                                 const miopenTensorDescriptor_t sin_desc, const void* sin,
                                 const miopenTensorDescriptor_t y_desc, void* y);

miopenStatus_t miopenDeriveBNTensorDescriptor(miopenTensorDescriptor_t derived, const miopenTensorDescriptor_t x_desc,
                                              miopenBatchNormMode_t mode);
miopenStatus_t miopenBatchNormalizationForwardInference(miopenHandle_t handle, miopenBatchNormMode_t mode, void* alpha,
                                                        void* beta, const miopenTensorDescriptor_t x_desc,
                                                        const void* x, const miopenTensorDescriptor_t y_desc, void* y,
                                                        const miopenTensorDescriptor_t parameter_desc, void* scale,
                                                        void* bias, void* mean, void* variance, double epsilon);

miopenStatus_t miopenCreateConvolutionDescriptor(miopenConvolutionDescriptor_t* descriptor);
miopenStatus_t miopenInitConvolutionDescriptor(miopenConvolutionDescriptor_t descriptor, miopenConvolutionMode_t mode,
                                               int pad_h, int pad_w, int stride_h, int stride_w, int dilation_h,
                                               int dilation_w);
miopenStatus_t miopenSetConvolutionGroupCount(miopenConvolutionDescriptor_t descriptor, int groups);
miopenStatus_t miopenDestroyConvolutionDescriptor(miopenConvolutionDescriptor_t descriptor);
miopenStatus_t miopenConvolutionForwardGetSolutionCount(miopenHandle_t handle, const miopenTensorDescriptor_t w_desc,
                                                        const miopenTensorDescriptor_t x_desc,
                                                        const miopenConvolutionDescriptor_t descriptor,
                                                        const miopenTensorDescriptor_t y_desc, size_t* count);
miopenStatus_t miopenConvolutionForwardGetSolution(miopenHandle_t handle, const miopenTensorDescriptor_t w_desc,
                                                   const miopenTensorDescriptor_t x_desc,
                                                   const miopenConvolutionDescriptor_t descriptor,
                                                   const miopenTensorDescriptor_t y_desc, const size_t most,
                                                   size_t* count, miopenConvSolution_t* solutions);
miopenStatus_t miopenConvolutionForwardGetSolutionWorkspaceSize(
    miopenHandle_t handle, const miopenTensorDescriptor_t w_desc, const miopenTensorDescriptor_t x_desc,
    const miopenConvolutionDescriptor_t descriptor, const miopenTensorDescriptor_t y_desc, const uint64_t solution,
    size_t* bytes);
miopenStatus_t miopenConvolutionForwardCompileSolution(miopenHandle_t handle, const miopenTensorDescriptor_t w_desc,
                                                       const miopenTensorDescriptor_t x_desc,
                                                       const miopenConvolutionDescriptor_t descriptor,
                                                       const miopenTensorDescriptor_t y_desc,
                                                       const uint64_t solution);
miopenStatus_t miopenConvolutionForwardImmediate(miopenHandle_t handle, const miopenTensorDescriptor_t w_desc,
                                                 const void* w, const miopenTensorDescriptor_t x_desc, const void* x,
                                                 const miopenConvolutionDescriptor_t descriptor,
                                                 const miopenTensorDescriptor_t y_desc, void* y, void* workspace,
                                                 const size_t workspace_bytes, const uint64_t solution);

miopenStatus_t miopenCreatePoolingDescriptor(miopenPoolingDescriptor_t* descriptor);
miopenStatus_t miopenSet2dPoolingDescriptor(miopenPoolingDescriptor_t descriptor, miopenPoolingMode_t mode,
                                            int window_h, int window_w, int pad_h, int pad_w, int stride_h,
                                            int stride_w);
miopenStatus_t miopenDestroyPoolingDescriptor(miopenPoolingDescriptor_t descriptor);
miopenStatus_t miopenPoolingForward(miopenHandle_t handle, const miopenPoolingDescriptor_t descriptor,
                                    const void* alpha, const miopenTensorDescriptor_t x_desc, const void* x,
                                    const void* beta, const miopenTensorDescriptor_t y_desc, void* y, bool do_backward,
                                    void* workspace, size_t workspace_bytes);
}
#pragma GCC visibility pop
#endif
