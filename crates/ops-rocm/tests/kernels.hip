// Kernels for the tests of launches, for AMD GPUs and for the stand-in's host engine.
typedef unsigned int u32;
typedef unsigned long long u64;

#if defined(__HIP__) || defined(__HIPCC_RTC__)
#define KERNEL(name, Args) extern "C" __attribute__((global)) void name(Args args)
#define INDEX (u64(__builtin_amdgcn_workgroup_id_x()) * __builtin_amdgcn_workgroup_size_x() + __builtin_amdgcn_workitem_id_x())
#else
struct HostIndex {
    u32 thread[3], block[3], block_dim[3], grid_dim[3];
};
struct HostApi {
    u32 version, wave_size;
    const HostIndex* (*index)(void);
};
static const HostApi* host_api;
extern "C" void ops_host_bind(const HostApi* api) { host_api = api; }
extern "C" const u32 ops_host_wave_size;
const u32 ops_host_wave_size = OPS_WAVE;
static u64 index() {
    const HostIndex* at = host_api->index();
    return u64(at->block[0]) * at->block_dim[0] + at->thread[0];
}
#define INDEX index()
#define KERNEL(name, Args)                                                                       \
    extern "C" void name(Args args);                                                             \
    extern "C" void name##__run(const void* args) { name(*static_cast<const Args*>(args)); }     \
    extern "C" const unsigned long name##__args_size;                                            \
    const unsigned long name##__args_size = sizeof(Args);                                        \
    extern "C" void name(Args args)
#endif

struct Scale {
    const float* x;
    float* y;
    u64 count;
    float factor;
    u32 reserved;
};

KERNEL(scale, Scale) {
    u64 i = INDEX;
    if (i < args.count) args.y[i] = args.x[i] * args.factor;
}

struct Record {
    u32 state, op, operand, reserved;
    u64 position;
    long long index;
    u64 bound;
};

struct Slot {
    u32 claimed, reserved;
    Record* record;
};

struct Gather {
    Slot* slot;
    const int* index;
    u64 count;
    u64 bound;
};

// One thread, so that no atomics are needed: the first index out of range is recorded.
KERNEL(check_indices, Gather) {
    if (INDEX != 0) return;
    for (u64 i = 0; i < args.count; ++i) {
        if (args.index[i] >= 0 && u64(args.index[i]) < args.bound) continue;
        if (args.slot->claimed != 0) return;
        args.slot->claimed = 1;
        Record* record = args.slot->record;
        record->op = 5;
        record->operand = 1;
        record->position = i;
        record->index = args.index[i];
        record->bound = args.bound;
        record->state = 2;
    }
}
