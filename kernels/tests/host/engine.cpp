// Runs host-compiled kernels: blocks one after another, a block's threads as fibers, so that barriers,
// shuffles, LDS and either wave size behave as on a device. Test equipment: small and strict, not fast.
#if !defined(__clang__)
// A jump between fibers restores no registers, so a caller must not assume that a callee preserved more of them than the ABI requires.
#pragma GCC optimize("no-ipa-ra")
#endif
#include "../../include/ops_host.h"

#include <stdlib.h>
#include <string.h>
#include <ucontext.h>

#include <algorithm>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace {

enum class State { Ready, Barrier, Exchange, Done };

constexpr size_t STACK = 128 << 10;
constexpr size_t GUARD = 64;

// Where to continue: the buffer of the compiler's `__builtin_setjmp`. The C library's setjmp and longjmp take twice as long.
using Context = void* [5];

struct Fiber {
    State state = State::Ready;
    bool started = false;
    Context context;
    OpsHostIndex index;
    uint64_t value = 0;   // handed to a shuffle, or the ballot's predicate
    uint32_t source = 0;  // lane asked for
    uint32_t width = 0;   // 0 for a ballot
};

struct Lds {
    std::unique_ptr<unsigned char[]> memory;
    uint64_t bytes = 0;
};

struct Block {
    std::vector<Fiber> fibers;
    std::map<uint32_t, Lds> lds;
    Lds dynamic;
    Fiber* current = nullptr;
    Context scheduler;
    void (*run)(const void*) = nullptr;
    const void* args = nullptr;
    uint32_t wave = 0;
    std::string error;
};

thread_local Block* block;
thread_local std::vector<std::unique_ptr<char[]>> stacks;

Lds allocate(uint64_t bytes) {
    Lds lds;
    lds.bytes = bytes;
    lds.memory.reset(new unsigned char[bytes + GUARD]);
    memset(lds.memory.get(), 0xff, bytes + GUARD);  // NaN in every float type
    return lds;
}

bool intact(const Lds& lds) {
    for (size_t i = 0; lds.memory && i < GUARD; i++) {
        if (lds.memory[lds.bytes + i] != 0xff) return false;
    }
    return true;
}

// Like its callers, not inlined: a function that calls `__builtin_setjmp` must not itself jump to that place.
[[noreturn]] __attribute__((noinline)) void go_to(Context& context) { __builtin_longjmp(context, 1); }

// Back to the scheduler until it calls again.
__attribute__((noinline)) void wait_as(State state) {
    block->current->state = state;
    if (__builtin_setjmp(block->current->context) == 0) go_to(block->scheduler);
}

const OpsHostIndex* api_index() { return &block->current->index; }
void api_barrier() { wait_as(State::Barrier); }
uint64_t api_shuffle(uint64_t value, uint32_t source, uint32_t width) {
    Fiber& f = *block->current;
    if (width == 0 || (width & (width - 1)) != 0 || width > block->wave) block->error = "bad shuffle width";
    f.value = value;
    f.source = source;
    f.width = width;
    wait_as(State::Exchange);
    return f.value;
}
uint64_t api_ballot(int predicate) {
    Fiber& f = *block->current;
    f.value = predicate != 0;
    f.width = 0;
    wait_as(State::Exchange);
    return f.value;
}
void* api_lds(uint32_t slot, uint64_t bytes) {
    Lds& lds = block->lds[slot];
    if (!lds.memory) lds = allocate(bytes);
    if (lds.bytes != bytes) block->error = "an LDS slot changed its size";
    return lds.memory.get();
}
void* api_dynamic_lds() { return block->dynamic.memory.get(); }

void entry() {
    block->run(block->args);
    block->current->state = State::Done;
    go_to(block->scheduler);
}

// Runs one fiber until it waits or ends.
__attribute__((noinline)) void resume(Fiber& f, char* stack) {
    block->current = &f;
    f.state = State::Ready;
    if (__builtin_setjmp(block->scheduler) != 0) return;
    if (f.started) go_to(f.context);
    f.started = true;
    ucontext_t context;
    getcontext(&context);
    context.uc_stack.ss_sp = stack;
    context.uc_stack.ss_size = STACK;
    context.uc_link = nullptr;
    makecontext(&context, entry, 0);
    setcontext(&context);
}

// Completes the exchange of the wave that starts at `first`, once all its live fibers are in it.
bool exchange(size_t first) {
    size_t end = std::min(first + block->wave, block->fibers.size());
    bool any = false, ballot = false, shuffle = false;
    for (size_t i = first; i < end; i++) {
        Fiber& f = block->fibers[i];
        if (f.state == State::Done) continue;
        if (f.state != State::Exchange) return false;
        any = true;
        (f.width == 0 ? ballot : shuffle) = true;
    }
    if (!any) return false;
    if (ballot && shuffle) block->error = "lanes of a wave met in a shuffle and a ballot";
    uint64_t in[64], bits = 0;
    std::fill(in, in + block->wave, 0xdeadbeefdeadbeefull);
    for (size_t i = first; i < end; i++) {
        if (block->fibers[i].state == State::Done) continue;
        in[i - first] = block->fibers[i].value;
        bits |= ballot ? block->fibers[i].value << (i - first) : 0;
    }
    for (size_t i = first; i < end; i++) {
        Fiber& f = block->fibers[i];
        if (f.state == State::Done) continue;
        size_t lane = i - first;
        f.value = ballot ? bits : in[(lane & ~size_t(f.width - 1)) | (f.source & (f.width - 1))];
        f.state = State::Ready;
    }
    return true;
}

bool release_barrier() {
    bool any = false;
    for (Fiber& f : block->fibers) {
        if (f.state == State::Done) continue;
        if (f.state != State::Barrier) return false;
        any = true;
    }
    for (Fiber& f : block->fibers) {
        if (f.state == State::Barrier) f.state = State::Ready;
    }
    return any;
}

void run_block() {
    for (;;) {
        bool ran = false, done = true;
        for (size_t i = 0; i < block->fibers.size(); i++) {
            if (block->fibers[i].state != State::Ready) continue;
            resume(block->fibers[i], stacks[i].get());
            ran = true;
            if (!block->error.empty()) return;
        }
        for (size_t w = 0; w < block->fibers.size(); w += block->wave) ran = exchange(w) || ran;
        ran = release_barrier() || ran;
        for (Fiber& f : block->fibers) done = done && f.state == State::Done;
        if (done) break;
        if (!ran) {
            block->error = "the block is stuck: its threads wait at different places";
            return;
        }
    }
    bool whole = intact(block->dynamic);
    for (auto& [slot, lds] : block->lds) whole = whole && intact(lds);
    if (!whole) block->error = "wrote past an LDS array";
}

}  // namespace

// Runs a grid. Returns 0, or 1 with a message of at most `message_size` bytes.
extern "C" int engine_launch(void (*run)(const void*), const void* args, const uint32_t* grid, uint32_t threads,
                             uint64_t dynamic_lds, uint32_t wave, char* message, size_t message_size) {
    if (wave != 32 && wave != 64) {
        strncpy(message, "waves have 32 or 64 lanes", message_size - 1);
        return 1;
    }
    while (stacks.size() < threads) stacks.emplace_back(new char[STACK]);
    for (uint32_t z = 0; z < grid[2]; z++)
        for (uint32_t y = 0; y < grid[1]; y++)
            for (uint32_t x = 0; x < grid[0]; x++) {
                Block now;
                now.fibers.resize(threads);
                now.dynamic = allocate(dynamic_lds);
                now.run = run;
                now.args = args;
                now.wave = wave;
                for (uint32_t t = 0; t < threads; t++) {
                    now.fibers[t].index = {{t, 0, 0}, {x, y, z}, {threads, 1, 1}, {grid[0], grid[1], grid[2]}};
                }
                block = &now;
                run_block();
                if (!now.error.empty()) {
                    strncpy(message, now.error.c_str(), message_size - 1);
                    return 1;
                }
            }
    return 0;
}

extern "C" const OpsHostApi* engine_api(uint32_t wave) {
    static const OpsHostApi apis[2] = {
        {OPS_HOST_API_VERSION, 32, api_index, api_barrier, api_shuffle, api_ballot, api_lds, api_dynamic_lds},
        {OPS_HOST_API_VERSION, 64, api_index, api_barrier, api_shuffle, api_ballot, api_lds, api_dynamic_lds}};
    return &apis[wave == 64];
}
