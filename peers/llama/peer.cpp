// Times llama.cpp: peer MODEL THREADS PROMPT DECODE. Prints tokens per second of a prompt and of the tokens after it, as JSON.
// Both are the best of two, so that nothing is paid for the first time.
#include "llama.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <vector>

static double seconds() {
    using namespace std::chrono;
    return duration<double>(steady_clock::now().time_since_epoch()).count();
}

static void decode(llama_context *context, llama_token *tokens, int n) {
    if (llama_decode(context, llama_batch_get_one(tokens, n)) != 0) {
        std::fprintf(stderr, "llama_decode failed\n");
        std::exit(1);
    }
}

int main(int count, char **arguments) {
    if (count != 5) {
        std::fprintf(stderr, "peer MODEL THREADS PROMPT DECODE\n");
        return 2;
    }
    const int threads = std::atoi(arguments[2]), prompt = std::atoi(arguments[3]), more = std::atoi(arguments[4]);
    llama_log_set([](ggml_log_level level, const char *text, void *) {
        if (level == GGML_LOG_LEVEL_ERROR) std::fputs(text, stderr);
    }, nullptr);
    llama_backend_init();
    llama_model *model = llama_model_load_from_file(arguments[1], llama_model_default_params());
    if (!model) return 1;
    llama_context_params options = llama_context_default_params();
    options.n_ctx = static_cast<uint32_t>(prompt + more + 1);
    options.n_batch = options.n_ubatch = static_cast<uint32_t>(prompt);
    options.n_threads = options.n_threads_batch = threads;
    llama_context *context = llama_init_from_model(model, options);
    if (!context) return 1;
    const int known = llama_vocab_n_tokens(llama_model_get_vocab(model));
    std::vector<llama_token> tokens(prompt);
    for (int i = 0; i < prompt; i++) tokens[i] = 300 + i * 37 % 1000;
    double prefill = 0, after = 0;
    for (int round = 0; round < 2; round++) {
        llama_memory_clear(llama_get_memory(context), true);
        double begin = seconds();
        decode(context, tokens.data(), prompt);
        const float *logits = llama_get_logits_ith(context, -1);
        llama_token next = static_cast<llama_token>(std::max_element(logits, logits + known) - logits);
        prefill = std::max(prefill, prompt / (seconds() - begin));
        begin = seconds();
        for (int i = 0; i < more; i++) {
            decode(context, &next, 1);
            logits = llama_get_logits_ith(context, -1);
            next = static_cast<llama_token>(std::max_element(logits, logits + known) - logits);
        }
        after = std::max(after, more / (seconds() - begin));
    }
    std::printf("{\"prefill_per_second\": %.3f, \"decode_per_second\": %.3f}\n", prefill, after);
    return 0;
}
