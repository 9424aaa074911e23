// Planes: the last two dimensions of an operand. Kernels here compute each element of a plane of y from the same plane of x.
#pragma once
#include "ops_view.h"

namespace ops {

struct Planes {
    Shape lead;  // the other dimensions: one index per plane
    Operand x;   // strides over `lead`
    Operand y;
    i64 x_row;  // strides within a plane
    i64 x_column;
    i64 y_row;
    i64 y_column;
    u64 height;  // of a plane of x
    u64 width;
    Divider rows;  // of a plane of y
    Divider columns;
    u64 count;  // elements of y
};

// A plane of x.
template <typename T> struct Plane {
    const T* data;
    const Planes& planes;

    OPS_METHOD T at(u64 row, u64 column) const {
        return data[i64(row) * planes.x_row + i64(column) * planes.x_column];
    }
};

// Stores value(plane of x, row, column) for every element of y.
template <typename T, typename F> OPS_DEVICE void for_planes(const Planes& planes, F value) {
    OPS_NO_UNROLL
    for (u64 i = global_thread(); i < planes.count; i += global_threads()) {
        u64 above = divide(planes.columns, i), column = i - above * planes.columns.by;
        u64 plane = divide(planes.rows, above), row = above - plane * planes.rows.by;
        const T* x = static_cast<const T*>(planes.x.data) + offset_of<5>(planes.lead, planes.x, plane);
        T* y = static_cast<T*>(planes.y.data) + offset_of<5>(planes.lead, planes.y, plane);
        T out = value(Plane<T>{x, planes}, row, column);
        y[i64(row) * planes.y_row + i64(column) * planes.y_column] = out;
    }
}

}  // namespace ops
