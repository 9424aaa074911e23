// hipRTC: manages programs, which an engine compiles.
#include "hiprtc_api.h"

#include <algorithm>
#include <cctype>
#include <cstring>
#include <set>

#include "core/config.h"
#include "core/faults.h"
#include "core/live.h"
#include "core/misuse.h"
#include "engine/engine.h"

using namespace standin;

extern "C" void amd_comgr_get_version(size_t* major, size_t* minor);

struct _hiprtcProgram {
  CompileRequest request;
  CompileResult result;
  bool compiled = false;
  std::set<std::string> name_expressions;
};

namespace {

template <class Body>
hiprtcResult rtc_call(const char* function, hiprtcResult injected, Body&& body) {
  if (faults().called(function)) return injected;
  try {
    return body();
  } catch (const std::bad_alloc&) {
    return HIPRTC_ERROR_OUT_OF_MEMORY;
  }
}

// Calls `body` with the program behind the handle.
template <class Body>
hiprtcResult program_call(const char* function, hiprtcResult injected, hiprtcProgram program, Body&& body) {
  return rtc_call(function, injected, [&] {
    if (live().contains(Kind::Program, program)) return body(*program);
    misuse("%s: %p is not a live program", function, static_cast<void*>(program));
    return HIPRTC_ERROR_INVALID_PROGRAM;
  });
}

hiprtcResult refuse(const char* function) {
  return rtc_call(function, HIPRTC_ERROR_LINKING, [] { return HIPRTC_ERROR_LINKING; });
}

// Returns the source with the fault that HIP_STANDIN_REPLACE plants.
std::string edited(std::string source) {
  const std::string &from = config().replaced, &to = config().replacement;
  for (size_t at = 0; !from.empty() && (at = source.find(from, at)) != std::string::npos; at += to.size())
    source.replace(at, from.size(), to);
  return source;
}

}  // namespace

extern "C" {

const char* hiprtcGetErrorString(hiprtcResult result) {
  switch (result) {
    case HIPRTC_SUCCESS: return "HIPRTC_SUCCESS";
    case HIPRTC_ERROR_OUT_OF_MEMORY: return "HIPRTC_ERROR_OUT_OF_MEMORY";
    case HIPRTC_ERROR_PROGRAM_CREATION_FAILURE: return "HIPRTC_ERROR_PROGRAM_CREATION_FAILURE";
    case HIPRTC_ERROR_INVALID_INPUT: return "HIPRTC_ERROR_INVALID_INPUT";
    case HIPRTC_ERROR_INVALID_PROGRAM: return "HIPRTC_ERROR_INVALID_PROGRAM";
    case HIPRTC_ERROR_INVALID_OPTION: return "HIPRTC_ERROR_INVALID_OPTION";
    case HIPRTC_ERROR_COMPILATION: return "HIPRTC_ERROR_COMPILATION";
    case HIPRTC_ERROR_BUILTIN_OPERATION_FAILURE: return "HIPRTC_ERROR_BUILTIN_OPERATION_FAILURE";
    case HIPRTC_ERROR_NO_NAME_EXPRESSIONS_AFTER_COMPILATION:
      return "HIPRTC_ERROR_NO_NAME_EXPRESSIONS_AFTER_COMPILATION";
    case HIPRTC_ERROR_NO_LOWERED_NAMES_BEFORE_COMPILATION: return "HIPRTC_ERROR_NO_LOWERED_NAMES_BEFORE_COMPILATION";
    case HIPRTC_ERROR_NAME_EXPRESSION_NOT_VALID: return "HIPRTC_ERROR_NAME_EXPRESSION_NOT_VALID";
    case HIPRTC_ERROR_INTERNAL_ERROR: return "HIPRTC_ERROR_INTERNAL_ERROR";
    case HIPRTC_ERROR_LINKING: return "HIPRTC_ERROR_LINKING";
    default: return "Invalid HIPRTC error code";
  }
}

hiprtcResult hiprtcVersion(int* major, int* minor) {
  return rtc_call(__func__, HIPRTC_ERROR_INVALID_INPUT, [&] {
    if (!major || !minor) return HIPRTC_ERROR_INVALID_INPUT;
    *major = int(config().rocm.major);
    *minor = int(config().rocm.minor);
    return HIPRTC_SUCCESS;
  });
}

hiprtcResult hiprtcCreateProgram(hiprtcProgram* program, const char* source, const char* name, int header_count,
                                 const char** headers, const char** include_names) {
  return rtc_call(__func__, HIPRTC_ERROR_PROGRAM_CREATION_FAILURE, [&] {
    if (!program || !source || header_count < 0) return HIPRTC_ERROR_INVALID_INPUT;
    if (header_count > 0 && (!headers || !include_names)) return HIPRTC_ERROR_INVALID_INPUT;
    auto created = std::make_unique<_hiprtcProgram>();
    created->request.source = edited(source);
    created->request.name = name ? name : "CompileSource";
    for (int i = 0; i < header_count; ++i) created->request.headers.emplace_back(include_names[i], headers[i]);
    live().add(Kind::Program, created.get(), created->request.name);
    *program = created.release();
    return HIPRTC_SUCCESS;
  });
}

hiprtcResult hiprtcDestroyProgram(hiprtcProgram* program) {
  if (!program) return HIPRTC_ERROR_INVALID_INPUT;
  return program_call(__func__, HIPRTC_ERROR_INTERNAL_ERROR, *program, [&](_hiprtcProgram& p) {
    if (!live().remove(Kind::Program, &p)) return HIPRTC_ERROR_INVALID_PROGRAM;
    delete &p;
    *program = nullptr;
    return HIPRTC_SUCCESS;
  });
}

hiprtcResult hiprtcCompileProgram(hiprtcProgram program, int option_count, const char** options) {
  return program_call(__func__, HIPRTC_ERROR_COMPILATION, program, [&](_hiprtcProgram& p) {
    if (option_count < 0 || (option_count > 0 && !options)) return HIPRTC_ERROR_INVALID_INPUT;
    // hipRTC does not work with a comgr of a different major version.
    size_t comgr = 0;
    amd_comgr_get_version(&comgr, nullptr);
    if (comgr != 3) return HIPRTC_ERROR_COMPILATION;
    p.request.options.assign(options, options + option_count);
    p.result = engine().compile(p.request);
    p.compiled = true;
    return p.result.ok ? HIPRTC_SUCCESS : HIPRTC_ERROR_COMPILATION;
  });
}

hiprtcResult hiprtcGetProgramLogSize(hiprtcProgram program, size_t* bytes) {
  return program_call(__func__, HIPRTC_ERROR_INTERNAL_ERROR, program, [&](_hiprtcProgram& p) {
    if (!bytes) return HIPRTC_ERROR_INVALID_INPUT;
    *bytes = p.result.log.empty() ? 0 : p.result.log.size() + 1;
    return HIPRTC_SUCCESS;
  });
}

hiprtcResult hiprtcGetProgramLog(hiprtcProgram program, char* log) {
  return program_call(__func__, HIPRTC_ERROR_INTERNAL_ERROR, program, [&](_hiprtcProgram& p) {
    if (!log) return HIPRTC_ERROR_INVALID_INPUT;
    if (!p.result.log.empty()) std::memcpy(log, p.result.log.c_str(), p.result.log.size() + 1);
    return HIPRTC_SUCCESS;
  });
}

hiprtcResult hiprtcGetCodeSize(hiprtcProgram program, size_t* bytes) {
  return program_call(__func__, HIPRTC_ERROR_INTERNAL_ERROR, program, [&](_hiprtcProgram& p) {
    if (!bytes) return HIPRTC_ERROR_INVALID_INPUT;
    *bytes = p.result.code_object.size();
    return HIPRTC_SUCCESS;
  });
}

hiprtcResult hiprtcGetCode(hiprtcProgram program, char* code) {
  return program_call(__func__, HIPRTC_ERROR_INTERNAL_ERROR, program, [&](_hiprtcProgram& p) {
    if (!code || !p.result.ok) return HIPRTC_ERROR_INVALID_INPUT;
    std::memcpy(code, p.result.code_object.data(), p.result.code_object.size());
    return HIPRTC_SUCCESS;
  });
}

hiprtcResult hiprtcAddNameExpression(hiprtcProgram program, const char* expression) {
  return program_call(__func__, HIPRTC_ERROR_INTERNAL_ERROR, program, [&](_hiprtcProgram& p) {
    if (!expression) return HIPRTC_ERROR_INVALID_INPUT;
    if (p.compiled) return HIPRTC_ERROR_NO_NAME_EXPRESSIONS_AFTER_COMPILATION;
    p.name_expressions.insert(expression);
    return HIPRTC_SUCCESS;
  });
}

// Accepts only names with C linkage, which equal their lowered names.
hiprtcResult hiprtcGetLoweredName(hiprtcProgram program, const char* expression, const char** lowered) {
  return program_call(__func__, HIPRTC_ERROR_INTERNAL_ERROR, program, [&](_hiprtcProgram& p) {
    if (!expression || !lowered) return HIPRTC_ERROR_INVALID_INPUT;
    if (!p.compiled) return HIPRTC_ERROR_NO_LOWERED_NAMES_BEFORE_COMPILATION;
    const auto known = p.name_expressions.find(expression);
    const bool identifier = std::all_of(expression, expression + std::strlen(expression),
                                        [](unsigned char c) { return std::isalnum(c) || c == '_'; });
    if (known == p.name_expressions.end() || !identifier) return HIPRTC_ERROR_NAME_EXPRESSION_NOT_VALID;
    *lowered = known->c_str();
    return HIPRTC_SUCCESS;
  });
}

hiprtcResult hiprtcGetBitcodeSize(hiprtcProgram, size_t*) { return refuse(__func__); }
hiprtcResult hiprtcGetBitcode(hiprtcProgram, char*) { return refuse(__func__); }
hiprtcResult hiprtcLinkCreate(unsigned int, hipJitOption*, void**, hiprtcLinkState*) { return refuse(__func__); }
hiprtcResult hiprtcLinkAddFile(hiprtcLinkState, hipJitInputType, const char*, unsigned int, hipJitOption*, void**) {
  return refuse(__func__);
}
hiprtcResult hiprtcLinkAddData(hiprtcLinkState, hipJitInputType, void*, size_t, const char*, unsigned int,
                               hipJitOption*, void**) {
  return refuse(__func__);
}
hiprtcResult hiprtcLinkComplete(hiprtcLinkState, void**, size_t*) { return refuse(__func__); }
hiprtcResult hiprtcLinkDestroy(hiprtcLinkState) { return refuse(__func__); }

}  // extern "C"
