// hipRTC's C interface, as published.
#pragma once

#include <cstddef>

#ifdef STANDIN_REAL_HEADERS
#include <hip/hiprtc.h>
#else

typedef enum hiprtcResult {
  HIPRTC_SUCCESS = 0,
  HIPRTC_ERROR_OUT_OF_MEMORY = 1,
  HIPRTC_ERROR_PROGRAM_CREATION_FAILURE = 2,
  HIPRTC_ERROR_INVALID_INPUT = 3,
  HIPRTC_ERROR_INVALID_PROGRAM = 4,
  HIPRTC_ERROR_INVALID_OPTION = 5,
  HIPRTC_ERROR_COMPILATION = 6,
  HIPRTC_ERROR_BUILTIN_OPERATION_FAILURE = 7,
  HIPRTC_ERROR_NO_NAME_EXPRESSIONS_AFTER_COMPILATION = 8,
  HIPRTC_ERROR_NO_LOWERED_NAMES_BEFORE_COMPILATION = 9,
  HIPRTC_ERROR_NAME_EXPRESSION_NOT_VALID = 10,
  HIPRTC_ERROR_INTERNAL_ERROR = 11,
  HIPRTC_ERROR_LINKING = 100,
} hiprtcResult;

typedef enum hipJitOption { hipJitOptionMaxRegisters = 0 } hipJitOption;
typedef enum hipJitInputType { hipJitInputCubin = 0 } hipJitInputType;
typedef struct _hiprtcProgram* hiprtcProgram;
typedef struct ihiprtcLinkState* hiprtcLinkState;

#pragma GCC visibility push(default)
extern "C" {
const char* hiprtcGetErrorString(hiprtcResult result);
hiprtcResult hiprtcVersion(int* major, int* minor);
hiprtcResult hiprtcCreateProgram(hiprtcProgram* program, const char* source, const char* name, int header_count,
                                 const char** headers, const char** include_names);
hiprtcResult hiprtcDestroyProgram(hiprtcProgram* program);
hiprtcResult hiprtcAddNameExpression(hiprtcProgram program, const char* expression);
hiprtcResult hiprtcGetLoweredName(hiprtcProgram program, const char* expression, const char** lowered);
hiprtcResult hiprtcCompileProgram(hiprtcProgram program, int option_count, const char** options);
hiprtcResult hiprtcGetProgramLogSize(hiprtcProgram program, size_t* bytes);
hiprtcResult hiprtcGetProgramLog(hiprtcProgram program, char* log);
hiprtcResult hiprtcGetCodeSize(hiprtcProgram program, size_t* bytes);
hiprtcResult hiprtcGetCode(hiprtcProgram program, char* code);
hiprtcResult hiprtcGetBitcodeSize(hiprtcProgram program, size_t* bytes);
hiprtcResult hiprtcGetBitcode(hiprtcProgram program, char* bitcode);
hiprtcResult hiprtcLinkCreate(unsigned int option_count, hipJitOption* options, void** values, hiprtcLinkState* state);
hiprtcResult hiprtcLinkAddFile(hiprtcLinkState state, hipJitInputType type, const char* path, unsigned int option_count,
                               hipJitOption* options, void** values);
hiprtcResult hiprtcLinkAddData(hiprtcLinkState state, hipJitInputType type, void* image, size_t bytes, const char* name,
                               unsigned int option_count, hipJitOption* options, void** values);
hiprtcResult hiprtcLinkComplete(hiprtcLinkState state, void** binary, size_t* bytes);
hiprtcResult hiprtcLinkDestroy(hiprtcLinkState state);
}
#pragma GCC visibility pop
#endif
