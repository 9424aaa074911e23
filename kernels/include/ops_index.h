// Index operands and the record of the first index that was out of range.
#pragma once
#include "ops_platform.h"

namespace ops {

// In pinned host memory, one per stream. It is complete when the host has waited for the kernel that wrote it.
struct ErrorRecord {
    u32 state;  // 0 empty, 2 complete; the host knows others
    u32 op;     // as given in the launch
    u32 operand;
    u32 reserved;
    u64 position;  // of the index within its operand
    i64 index;
    u64 bound;
};

// In device memory, one per stream. The thread that claims it writes the record; it stays claimed until the host has taken
// the record. The claim is not in the record because not every PCI Express link carries atomic operations to host memory.
struct ErrorSlot {
    u32 claimed;
    u32 reserved;
    Address<ErrorRecord> record;
};

enum IndexKind : u32 { INDEX_U8 = 0, INDEX_U32 = 1, INDEX_I32 = 2, INDEX_I64 = 3 };

OPS_DEVICE void record_index_error(ErrorSlot* slot, u32 op, u32 operand, u64 position, i64 index, u64 bound) {
    if (slot == nullptr || !compare_and_swap(&slot->claimed, 0, 1)) return;
    ErrorRecord* record = slot->record;
    record->op = op;
    record->operand = operand;
    record->position = position;
    record->index = index;
    record->bound = bound;
    store_release(&record->state, 2);
}

// An index read from memory; `absent` for the type's largest value, which means "no element".
struct Index {
    i64 value;
    bool absent;
};

OPS_DEVICE Index read_index(const void* data, u32 kind, i64 at) {
    if (kind == INDEX_U8) {
        u8 v = static_cast<const u8*>(data)[at];
        return Index{v, v == 0xff};
    }
    if (kind == INDEX_U32) {
        u32 v = static_cast<const u32*>(data)[at];
        return Index{v, v == 0xffffffffu};
    }
    if (kind == INDEX_I32) {
        i32 v = static_cast<const i32*>(data)[at];
        return Index{v, v == 0x7fffffff};
    }
    i64 v = static_cast<const i64*>(data)[at];
    return Index{v, v == 0x7fffffffffffffffll};
}

}  // namespace ops
