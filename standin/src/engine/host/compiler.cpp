#include "engine/host/compiler.h"

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cctype>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <sstream>

#include "engine/code_object.h"
#include "engine/host/store.h"
#include "engine/rtc_options.h"

extern char** environ;

namespace standin {
namespace {

namespace fs = std::filesystem;

/// A folder that is removed with the object.
class ScratchFolder {
 public:
  ScratchFolder() {
    std::string pattern = (fs::temp_directory_path() / "hip-standin-XXXXXX").string();
    if (mkdtemp(pattern.data())) path_ = pattern;
  }
  ~ScratchFolder() {
    std::error_code ignored;
    if (!path_.empty()) fs::remove_all(path_, ignored);
  }
  ScratchFolder(const ScratchFolder&) = delete;
  ScratchFolder& operator=(const ScratchFolder&) = delete;
  const fs::path& path() const { return path_; }

 private:
  fs::path path_;
};

std::string contents(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

bool write_file(const fs::path& path, const std::string& text) {
  std::error_code ignored;
  fs::create_directories(path.parent_path(), ignored);
  std::ofstream file(path, std::ios::binary);
  file << text;
  return bool(file.flush());
}

// The environment, without the libraries preloaded into this process: the sanitizer's allocator makes a
// compiler half as fast.
std::vector<char*> environment_of_commands() {
  std::vector<char*> out;
  for (char** variable = environ; *variable; ++variable)
    if (std::strncmp(*variable, "LD_PRELOAD=", 11) != 0) out.push_back(*variable);
  out.push_back(nullptr);
  return out;
}

// Runs a command with its output in `log`; returns its exit status, or -1 if it could not be started.
int run(const std::vector<std::string>& command, const fs::path& log) {
  std::vector<char*> arguments;
  for (const std::string& word : command) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, 1, log.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
  posix_spawn_file_actions_adddup2(&actions, 1, 2);
  pid_t child = 0;
  const int failed =
      posix_spawnp(&child, arguments[0], &actions, nullptr, arguments.data(), environment_of_commands().data());
  posix_spawn_file_actions_destroy(&actions);
  if (failed) return -1;
  int status = 0;
  while (waitpid(child, &status, 0) < 0)
    if (errno != EINTR) return -1;
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

std::vector<std::string> words(const std::string& text) {
  std::istringstream stream(text);
  return {std::istream_iterator<std::string>(stream), {}};
}

bool stays_inside(const std::string& name) {
  const fs::path path(name);
  if (name.empty() || path.is_absolute()) return false;
  for (const fs::path& part : path)
    if (part == "..") return false;
  return true;
}

// What the kernel compiler reports about itself; empty if it cannot be run.
const std::string& compiler_version() {
  static const std::string version = [] {
    const ScratchFolder folder;
    const fs::path log = folder.path() / "version";
    const bool ran = !folder.path().empty() && run({config().compiler, "--version"}, log) == 0;
    return ran ? contents(log) : std::string();
  }();
  return version;
}

// Whether the kernel compiler is clang, whatever its name.
bool compiler_is_clang() { return compiler_version().find("clang") != std::string::npos; }

// All options except input and output.
std::vector<std::string> command_line(const RtcOptions& options, const fs::path& folder) {
  // Most kernels run for less time than they take to compile, which -O1 would double. Inlining is what makes
  // them fast.
  std::vector<std::string> command = {config().compiler, "-Og", "-finline-functions", "-fPIC", "-shared", "-std=c++17",
                                      "-fno-exceptions", "-fno-rtti",
                                      // GPU code reads LDS and vectors of values through pointers of other types.
                                      "-fno-strict-aliasing", "-DOPS_HOST=1", "-I" + (folder / "include").string(),
                                      // A product and a sum are rounded separately unless the kernel fuses
                                      // them.
                                      "-ffp-contract=off", "-fno-math-errno"};
#if defined(__x86_64__)
  // Without these, f16 conversions and fused products are function calls, which take most of the time of many
  // kernels.
  if (__builtin_cpu_supports("f16c") && __builtin_cpu_supports("fma"))
    command.insert(command.end(), {"-mf16c", "-mfma"});
#endif
  // A unique symbol would keep the module loaded after its last dlclose. clang emits none and rejects the option.
  if (!compiler_is_clang()) command.insert(command.end(), {"-fno-gnu-unique", "-Wall", "-Wextra", "-Wno-unknown-pragmas"});
  command.insert(command.end(), options.defines_and_includes.begin(), options.defines_and_includes.end());
  for (const std::string& flag : words(config().compiler_flags)) command.push_back(flag);
  return command;
}

// Compiles kernel.cpp to kernel.so, and returns the compiler's exit status.
int compile(std::vector<std::string> command, bool strict, const fs::path& folder) {
  if (strict) command.push_back("-Werror");
  for (const std::string& word : {std::string("-x"), std::string("c++"), (folder / "kernel.cpp").string(),
                                  std::string("-o"), (folder / "kernel.so").string()})
    command.push_back(word);
  // The linker takes half as long without the libraries that kernels do not use. A sanitizer adds its own.
  if (config().compiler_flags.find("-fsanitize") == std::string::npos)
    command.insert(command.end(), {"-nostdlib", "-lm", "-lgcc"});
  return run(command, folder / "log");
}

// Whether a text contains a macro's name.
bool names(const std::string& text, const std::string& macro) {
  const auto in_name = [&](size_t at) { return at < text.size() && (std::isalnum((unsigned char)text[at]) || text[at] == '_'); };
  for (size_t at = text.find(macro); at != std::string::npos; at = text.find(macro, at + 1))
    if (!in_name(at + macro.size()) && (at == 0 || !in_name(at - 1))) return true;
  return false;
}

// Everything that the code depends on: compiler, options, and the program. Macros count only if the program names them, since
// callers define some for every program that name the target.
std::string identity(const std::vector<std::string>& command, const CompileRequest& request) {
  std::string program = request.source + '\0';
  for (const auto& [name, text] : request.headers) program += name + '\0' + text + '\0';
  std::string text = compiler_version();
  for (const std::string& word : command) {
    const bool defines = word.compare(0, 2, "-D") == 0;
    const bool counts = defines ? names(program, word.substr(2, word.find('=') - 2)) : word.compare(0, 2, "-I") != 0;
    if (counts) text += word + '\0';
  }
  return text + program;
}

// The scratch folder's name is meaningless to a reader of the log.
std::string without(std::string text, const std::string& unwanted) {
  for (size_t at; (at = text.find(unwanted)) != std::string::npos;) text.erase(at, unwanted.size());
  return text;
}

}  // namespace

CompileResult compile_for_host(const CompileRequest& request) {
  CompileResult result;
  const RtcOptions options = read_rtc_options(request.options);
  if (!options.problem.empty()) {
    result.log = options.problem + "\n";
    return result;
  }
  if (options.gfx.empty()) return result;  // like the real one: an error with an empty log
  ScratchFolder folder;
  if (folder.path().empty()) {
    result.log = "error: cannot make a temporary folder\n";
    return result;
  }
  bool written = write_file(folder.path() / "kernel.cpp", "#line 1 \"" + request.name + "\"\n" + request.source);
  for (const auto& [name, text] : request.headers) {
    if (!stays_inside(name)) {
      result.log = "error: include name '" + name + "' leads out of the program\n";
      return result;
    }
    written = written && write_file(folder.path() / "include" / name, text);
  }
  if (!written) {
    result.log = "error: cannot write the program to a temporary folder\n";
    return result;
  }
  const std::vector<std::string> command = command_line(options, folder.path());
  const CodeStore store(config().code_store);
  const std::string key = store.in_use() ? identity(command, request) : std::string();
  std::string code = key.empty() ? std::string() : store.find(key);
  const bool stored = !code.empty();
  // A warning is an error, except where a fault is planted, because the cases have to find that, and with options of the caller.
  const bool strict = config().replaced.empty() && config().compiler_flags.empty() && !compiler_is_clang();
  const int status = stored ? 0 : compile(command, strict, folder.path());
  result.log = without(contents(folder.path() / "log"), folder.path().string() + "/");
  if (status < 0) result.log += "error: cannot run the C++ compiler '" + command[0] + "' (HIP_STANDIN_CXX names it)\n";
  result.ok = status == 0;
  if (!result.ok) return result;
  if (!stored) code = contents(folder.path() / "kernel.so");
  if (!stored && !key.empty() && result.log.empty()) store.keep(key, code);
  result.code_object = pack({EngineKind::Host, options.gfx, options.wave_size, code});
  return result;
}

}  // namespace standin
