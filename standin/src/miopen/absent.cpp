// Functions of MIOpen that callers resolve but the stand-in does not implement. Each returns
// miopenStatusNotImplemented, whatever its arguments.
#include "miopen_api.h"

// With the public headers the real signatures are known, and these declarations would contradict them.
#ifndef STANDIN_REAL_HEADERS

extern "C" {

__attribute__((visibility("default"))) miopenStatus_t standin_miopen_absent() { return miopenStatusNotImplemented; }

// Defines another name for the function above. Only the preprocessor can turn a name into a symbol.
#define ABSENT(name) __attribute__((visibility("default"), alias("standin_miopen_absent"))) miopenStatus_t name();

ABSENT(miopenBatchNormalizationForwardInference_V2)
ABSENT(miopenCatForward)
ABSENT(miopenConvolutionBackwardDataCompileSolution)
ABSENT(miopenConvolutionBackwardDataGetSolution)
ABSENT(miopenConvolutionBackwardDataGetSolutionCount)
ABSENT(miopenConvolutionBackwardDataGetSolutionWorkspaceSize)
ABSENT(miopenConvolutionBackwardWeightsCompileSolution)
ABSENT(miopenConvolutionBackwardWeightsGetSolution)
ABSENT(miopenConvolutionBackwardWeightsGetSolutionCount)
ABSENT(miopenConvolutionBackwardWeightsGetSolutionWorkspaceSize)
ABSENT(miopenConvolutionForward)
ABSENT(miopenConvolutionForwardBias)
ABSENT(miopenConvolutionForwardGetWorkSpaceSize)
ABSENT(miopenCreateActivationProblem)
ABSENT(miopenCreateBatchnormProblem)
ABSENT(miopenCreateBiasProblem)
ABSENT(miopenCreateConvProblem)
ABSENT(miopenCreateFindOptions)
ABSENT(miopenCreateMhaDescriptor)
ABSENT(miopenCreateMhaProblem)
ABSENT(miopenCreateReduceTensorDescriptor)
ABSENT(miopenCreateSeqTensorDescriptor)
ABSENT(miopenCreateSoftmaxDescriptor)
ABSENT(miopenCreateSoftmaxProblem)
ABSENT(miopenDestroyFindOptions)
ABSENT(miopenDestroyProblem)
ABSENT(miopenDestroyReduceTensorDescriptor)
ABSENT(miopenDestroySeqTensorDescriptor)
ABSENT(miopenDestroySolution)
ABSENT(miopenFindSolutions)
ABSENT(miopenFuseProblems)
ABSENT(miopenGLUForward)
ABSENT(miopenGet2dPoolingDescriptor)
ABSENT(miopenGetConvolutionDescriptor)
ABSENT(miopenGetConvolutionNdDescriptor)
ABSENT(miopenGetMhaDescriptor)
ABSENT(miopenGetNdPoolingDescriptor)
ABSENT(miopenGetRNNDataSeqTensorDescriptor)
ABSENT(miopenGetReduceCalculationWorkspaceSize)
ABSENT(miopenGetReduceTensorDescriptor)
ABSENT(miopenGetSoftmaxDescriptor)
ABSENT(miopenGetSolutionSize)
ABSENT(miopenGetSolutionSolverId)
ABSENT(miopenGetSolutionTime)
ABSENT(miopenGetSolutionWorkspaceSize)
ABSENT(miopenInitConvolutionNdDescriptor)
ABSENT(miopenKthvalueForward)
ABSENT(miopenLoadSolution)
ABSENT(miopenOpTensor)
ABSENT(miopenReduceCalculationForward)
ABSENT(miopenReduceExtremeForward)
ABSENT(miopenReduceTensor)
ABSENT(miopenRunSolution)
ABSENT(miopenSaveSolution)
ABSENT(miopenScaleTensor)
ABSENT(miopenSetConvolutionAttribute)
ABSENT(miopenSetConvolutionFindMode)
ABSENT(miopenSetFindOptionAttachBinaries)
ABSENT(miopenSetFindOptionPreallocatedTensor)
ABSENT(miopenSetFindOptionPreallocatedWorkspace)
ABSENT(miopenSetFindOptionResultsOrder)
ABSENT(miopenSetFindOptionTuning)
ABSENT(miopenSetFindOptionWorkspaceLimit)
ABSENT(miopenSetMhaDescriptor)
ABSENT(miopenSetNdPoolingDescriptor)
ABSENT(miopenSetProblemTensorDescriptor)
ABSENT(miopenSetRNNDataSeqTensorDescriptor)
ABSENT(miopenSetReduceTensorDescriptor)
ABSENT(miopenSetSoftmaxDescriptor)
ABSENT(miopenSetTensor)
ABSENT(miopenSoftmaxBackward)
ABSENT(miopenSoftmaxBackward_V2)
ABSENT(miopenTransformTensor)

#undef ABSENT

}  // extern "C"

#endif
