// Caches of keys and values: how the heads of a token are rotated, and where they go.
#pragma once
#include "ops_index.h"

namespace ops {

// Strides of rows [n, h, d].
struct HeadRows {
    i64 row;
    i64 head;
    i64 step;
};

struct CacheTarget {
    Address<const void> cos;
    Address<const void> sin;
    Address<const void> positions;
    Address<const void> slots;
    Address<void> k_cache;
    Address<void> v_cache;
    Address<void> y;  // the rotated queries; null without queries
    HeadRows of_k_cache;
    HeadRows of_v_cache;
    HeadRows of_y;
    i64 cos_row;
    i64 cos_step;
    i64 sin_row;
    i64 sin_step;
    i64 positions_step;
    i64 slots_step;
    u64 d;
    u64 dv;
    u64 half;  // pairs; the features after them are not rotated
    u64 interleaved;
    u64 tables_are_f32;  // otherwise they have the type of the rows
    u64 table_rows;
    u64 cache_slots;
    Address<ErrorSlot> error;  // null to record nothing
    u32 positions_kind;        // IndexKind
    u32 slots_kind;
    u32 op_of_positions;  // for the record
    u32 op_of_slots;
};

// Where a head goes, and by which row of the tables it is rotated.
struct CachePlace {
    i64 slot;
    i64 angle;
    bool rotated;
    bool written;
};

OPS_DEVICE CachePlace cache_place(const CacheTarget& to, u64 token) {
    Index angle = read_index(to.positions, to.positions_kind, i64(token) * to.positions_step);
    Index slot = read_index(to.slots, to.slots_kind, i64(token) * to.slots_step);
    bool in_table = angle.value >= 0 && u64(angle.value) < to.table_rows;
    bool in_cache = slot.value >= 0 && u64(slot.value) < to.cache_slots;
    if (!in_table) {
        record_index_error(to.error, to.op_of_positions, 0, token, angle.value, to.table_rows);
    } else if (!in_cache && !slot.absent) {
        record_index_error(to.error, to.op_of_slots, 0, token, slot.value, to.cache_slots);
    }
    return CachePlace{slot.value, angle.value, in_table, in_table && in_cache && !slot.absent};
}

}  // namespace ops
