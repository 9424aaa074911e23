#include "core/config.h"

#include <dlfcn.h>
#include <regex.h>

#include <cstdio>
#include <cstdlib>
#include <sstream>

#include "core/generic_targets.h"

namespace standin {
namespace {

std::string text(const char* name, const char* otherwise = "") {
  const char* value = std::getenv(name);
  return value && *value ? value : otherwise;
}

// An invalid setting must not be ignored: a test would then check nothing.
[[noreturn]] void reject(const char* name, const std::string& value, const char* wanted) {
  std::fprintf(stderr, "hip-standin: %s=%s cannot be read: %s\n", name, value.c_str(), wanted);
  std::abort();
}

uint64_t number(const char* name, uint64_t otherwise, uint64_t least, uint64_t most) {
  const std::string value = text(name);
  if (value.empty()) return otherwise;
  char* end = nullptr;
  const uint64_t parsed = std::strtoull(value.c_str(), &end, 10);
  if (*end != '\0' || parsed < least || parsed > most) reject(name, value, "expected a number in range");
  return parsed;
}

bool choice(const char* name, const char* yes, const char* no) {
  const std::string value = text(name, no);
  if (value != yes && value != no) reject(name, value, (std::string("expected ") + yes + " or " + no).c_str());
  return value == yes;
}

// The folder beside this library, unless HIP_STANDIN_CODE names another; no folder if it is set to an empty
// name.
std::string code_store() {
  if (const char* chosen = std::getenv("HIP_STANDIN_CODE")) return chosen;
  Dl_info info;
  if (!dladdr(reinterpret_cast<void*>(&code_store), &info) || !info.dli_fname) return {};
  const std::string library = info.dli_fname;
  const size_t slash = library.rfind('/');
  return slash == std::string::npos ? std::string() : library.substr(0, slash) + "/code";
}

PeerAccess peer_access() {
  const std::string value = text("HIP_STANDIN_PEERS", "work");
  if (value == "work") return PeerAccess::Works;
  if (value == "none") return PeerAccess::None;
  if (value == "lost") return PeerAccess::Lost;
  if (value == "hang") return PeerAccess::Hangs;
  reject("HIP_STANDIN_PEERS", value, "expected work, none, lost or hang");
}

// HIP_STANDIN_MIOPEN=3.1.0
LibraryVersion version(const char* name, LibraryVersion otherwise) {
  const std::string value = text(name);
  if (value.empty()) return otherwise;
  LibraryVersion v{};
  int end = 0;
  const int read = std::sscanf(value.c_str(), "%u.%u.%u%n", &v.major, &v.minor, &v.patch, &end);
  if (read != 3 || size_t(end) != value.size()) reject(name, value, "expected a version like 3.5.1");
  return v;
}

// HIP_STANDIN_DEVICES=gfx1036:integrated,gfx1100 lists several devices; `none` simulates a machine without one.
std::vector<DeviceChoice> devices() {
  const uint64_t wave = number("HIP_STANDIN_WAVE", 0, 32, 64);
  if (wave != 0 && wave != 32 && wave != 64) reject("HIP_STANDIN_WAVE", std::to_string(wave), "expected 32 or 64");
  const std::string gfx = text("HIP_STANDIN_GFX", wave == 64 ? "gfx90a:sramecc+:xnack-" : "gfx1100");
  std::vector<DeviceChoice> list;
  const std::string devices = text("HIP_STANDIN_DEVICES", gfx.c_str());
  if (devices == "none") return list;
  std::stringstream parts(devices);
  for (std::string part; std::getline(parts, part, ',');) {
    static const std::string marker = ":integrated";
    const bool integrated =
        part.size() > marker.size() && part.compare(part.size() - marker.size(), marker.size(), marker) == 0;
    if (integrated) part.resize(part.size() - marker.size());
    if (!plausible_gfx(part)) reject("HIP_STANDIN_DEVICES or HIP_STANDIN_GFX", part, "expected a target like gfx1100");
    list.push_back({part, wave ? uint32_t(wave) : natural_wave_size(part), integrated});
  }
  return list;
}

Config read() {
  Config c;
  c.engine = choice("HIP_STANDIN_ENGINE", "cuda", "host") ? EngineKind::Cuda : EngineKind::Host;
  c.devices = devices();
  c.memory_bytes = number("HIP_STANDIN_MEMORY", c.memory_bytes, 1 << 16, uint64_t(1) << 40);
  c.shown_bytes = number("HIP_STANDIN_MEMORY_SHOWN", c.memory_bytes, 1 << 16, uint64_t(1) << 44);
  c.overhead_bytes = number("HIP_STANDIN_OVERHEAD", 0, 0, uint64_t(1) << 32);
  c.alignment = number("HIP_STANDIN_ALIGN", c.alignment, 16, 4096);
  if (c.alignment & (c.alignment - 1)) reject("HIP_STANDIN_ALIGN", std::to_string(c.alignment), "expected a power of two");
  c.threads = uint32_t(number("HIP_STANDIN_THREADS", c.threads, 1, 256));
  c.compute_units = uint32_t(number("HIP_STANDIN_COMPUTE_UNITS", 0, 1, 1024));
  c.shuffled = choice("HIP_STANDIN_ORDER", "shuffled", "alternating");
  c.delay_us = uint32_t(number("HIP_STANDIN_DELAY_US", 0, 0, 10000000));
  c.stub_launches = choice("HIP_STANDIN_LAUNCH", "stub", "run");
  c.abort_on_fault = choice("HIP_STANDIN_FAULT", "abort", "error");
  c.abort_on_bad_arch = choice("HIP_STANDIN_BAD_ARCH", "abort", "error");
  c.report_leaks = choice("HIP_STANDIN_REPORT", "1", "0") || text("HIP_STANDIN_REPORT").empty();
  c.strict = choice("HIP_STANDIN_STRICT", "1", "0");
  c.no_tensile = choice("HIP_STANDIN_NO_TENSILE", "1", "0");
  c.peers = peer_access();
  c.rocm = version("HIP_STANDIN_VERSION", c.rocm);
  c.miopen = version("HIP_STANDIN_MIOPEN", c.miopen);
  const std::string edit = text("HIP_STANDIN_REPLACE");
  if (const size_t arrow = edit.find("=>"); arrow != std::string::npos && arrow > 0) {
    c.replaced = edit.substr(0, arrow);
    c.replacement = edit.substr(arrow + 2);
  } else if (!edit.empty()) {
    std::fprintf(stderr, "hip-standin: HIP_STANDIN_REPLACE=%s: expected TEXT=>TEXT\n", edit.c_str());
    std::abort();
  }
  c.compiler = text("HIP_STANDIN_CXX", "g++");
  c.compiler_flags = text("HIP_STANDIN_CXXFLAGS");
  c.code_store = code_store();
  return c;
}

}  // namespace

const Config& config() {
  static const Config* const instance = new Config(read());  // never destroyed: streams outlive static destructors
  return *instance;
}

std::string bare_gfx(const std::string& gfx) { return gfx.substr(0, gfx.find(':')); }

bool code_runs_on(const std::string& target, const std::string& device) {
  const std::string wanted = bare_gfx(target), own = bare_gfx(device);
  bool runs = wanted == own;
  for (const auto& [generic, devices] : generic_targets)
    runs = runs || (wanted == generic && std::string(devices).find(own + " ") != std::string::npos);
  for (size_t at = target.find(':'); runs && at != std::string::npos; at = target.find(':', at + 1)) {
    const std::string feature = target.substr(at, target.find(':', at + 1) - at);
    runs = (device + ":").find(feature + ":") != std::string::npos;
  }
  return runs;
}

uint32_t natural_wave_size(const std::string& gfx) {
  const std::string bare = bare_gfx(gfx);
  const bool gcn = bare.rfind("gfx9", 0) == 0 || (bare.size() == 6 && bare[3] < '9');
  return gcn ? 64 : 32;
}

bool plausible_gfx(const std::string& gfx) {
  // The C library's: std::regex takes two seconds to compile.
  static const regex_t* const pattern = [] {
    auto* const compiled = new regex_t;
    const char* text = "^gfx([0-9a-f]{3,4}|[0-9]{1,2}(-[0-9])?-generic)(:(sramecc|xnack)[+-]){0,2}$";
    if (regcomp(compiled, text, REG_EXTENDED | REG_NOSUB) != 0) std::abort();
    return compiled;
  }();
  return regexec(pattern, gfx.c_str(), 0, nullptr, 0) == 0;
}

}  // namespace standin
