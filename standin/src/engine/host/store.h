#pragma once
#include <filesystem>
#include <string>

namespace standin {

// Compiled code, keyed by the text that it was compiled from. hipRTC's callers key their caches by target,
// but on the host most targets share the same code.
class CodeStore {
 public:
  // `folder` may be empty; the store is then always empty.
  explicit CodeStore(std::filesystem::path folder) : folder_(std::move(folder)) {}
  bool in_use() const { return !folder_.empty(); }
  // The code stored under this text; empty if there is none.
  std::string find(const std::string& text) const;
  // Stores code. It appears completely or not at all. A failure is not an error, because the code can be
  // compiled again.
  void keep(const std::string& text, const std::string& code) const;

 private:
  std::filesystem::path place_of(const std::string& text) const;
  std::filesystem::path folder_;
};

}  // namespace standin
