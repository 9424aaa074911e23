// sample: an id drawn from each row of logits, by a block; random_uniform, random_normal: a Philox block by a thread.
// Probabilities are integers ("masses"), so sums do not depend on their order, and the result is that of every other backend. No
// row is sorted: what is wanted is where a running sum, in falling order, first passes a bound, and that is found digit by digit
// of the logits' keys, with a histogram of masses in LDS for each digit.
#include "ops_first.h"
#include "ops_reduce.h"
#include "ops_trig.h"
#include "ops_view.h"

namespace ops {

struct SampleArgs {
    Address<const void> logits;
    i64 logits_stride[2];
    Address<const i64> counter;
    i64 counter_stride;
    Address<u32> ids;
    i64 ids_stride;
    u64 rows;
    u64 columns;
    u64 top_k;   // at most `columns`
    u64 share;   // top_p in units of 2^-63
    u64 seed;
    f32 rate;    // log2(e) / temperature
    u32 shift;   // 2^shift is at least `columns`
    u32 greedy;  // whether the largest logit is wanted
    u32 unused;
};

struct RandomArgs {
    Shape shape;
    Operand y;
    u64 seed;
    u64 offset;
};

constexpr u32 SAMPLE_BLOCK = 1024;
constexpr u32 SAMPLE_DIGIT = 11;
constexpr u32 SAMPLE_BINS = 1u << SAMPLE_DIGIT;
constexpr u32 SAMPLE_WAVES = SAMPLE_BLOCK / 32;
// Loads in flight.
constexpr u32 SAMPLE_AHEAD = 4;
constexpr u64 SAMPLE_WHOLE = 1ull << 63;

// Philox-4x32-10 with the counter (low, high).
OPS_DEVICE Pack<u32, 4> philox(u64 low, u32 high, u64 seed) {
    u32 c0 = u32(low), c1 = u32(low >> 32), c2 = high, c3 = 0;
    u32 key0 = u32(seed), key1 = u32(seed >> 32);
    OPS_NO_UNROLL
    for (u32 round = 0; round < 10; round++) {
        u64 a = u64(0xd2511f53u) * c0, b = u64(0xcd9e8d57u) * c2;
        c0 = u32(b >> 32) ^ c1 ^ key0;
        c2 = u32(a >> 32) ^ c3 ^ key1;
        c1 = u32(b);
        c3 = u32(a);
        key0 += 0x9e3779b9u;
        key1 += 0xbb67ae85u;
    }
    return Pack<u32, 4>{{c0, c1, c2, c3}};
}

// 2^(62 - shift) / 2^(below * rate), rounded down: `Masses::of` of ops-core, operation by operation.
OPS_DEVICE u64 mass_of(f32 below, f32 rate, u32 shift) {
    f32 y = multiply_exact(below, rate);
    if (!(y < 64.0f)) return 0;
    u32 whole = u32(y);
    f32 part = add_exact(y, -f32(whole));
    f32 power = 0.0f;
    constexpr f32 series[9] = {-1.0178086e-7f, 1.3215487e-6f, -1.5252734e-5f, 1.540353e-4f, -1.3333558e-3f,
                               9.618129e-3f,   -5.550411e-2f, 2.402265e-1f,   -6.931472e-1f};
    OPS_UNROLL
    for (u32 i = 0; i < 9; i++) power = multiply_exact(add_exact(power, series[i]), part);
    power = add_exact(power, 1.0f);
    u64 mass = u64(u32(multiply_exact(power, 2147483648.0f))) << 31;
    return whole + shift < 64 ? mass >> (whole + shift) : 0;
}

// `same_in_wave` of 64 bits. What comes from LDS would otherwise take vector registers, of which a block of 1024 threads has few.
OPS_DEVICE u64 wide_same_in_wave(u64 value) { return u64(same_in_wave(u32(value >> 32))) << 32 | same_in_wave(u32(value)); }

// Where a running sum passes a bound.
template <typename P> struct Passed {
    P place;
    u64 before;  // the sum of all that is at lower places
};

template <typename T> struct Sampler {
    using Key = key_t<T>;
    using Best = Ranked<Key>;
    static constexpr u32 KEY_BITS = 8 * sizeof(T);

    const SampleArgs& args;
    const T* logits;
    // LDS
    u64* bins;
    u64* totals;  // of waves; the last two are what `pick` found
    Best* scratch;
    acc_t<T> largest;

    OPS_METHOD T at(u64 i) const { return logits[i64(i) * args.logits_stride[1]]; }

    // Calls `f` with every id and its logit.
    template <typename F> OPS_METHOD void each(F f) const {
        u64 n = args.columns, i = thread_x();
        OPS_NO_UNROLL
        for (; i + (SAMPLE_AHEAD - 1) * SAMPLE_BLOCK < n; i += SAMPLE_AHEAD * SAMPLE_BLOCK) {
            T x[SAMPLE_AHEAD];
            OPS_UNROLL
            for (u32 k = 0; k < SAMPLE_AHEAD; k++) x[k] = at(i + k * SAMPLE_BLOCK);
            OPS_UNROLL
            for (u32 k = 0; k < SAMPLE_AHEAD; k++) f(i + k * SAMPLE_BLOCK, x[k]);
        }
        OPS_NO_UNROLL
        for (; i < n; i += SAMPLE_BLOCK) f(i, at(i));
    }

    // Lower for larger logits.
    static OPS_METHOD Key place_of(T x) { return key_of(x, false) ^ all_bits<T>(); }
    OPS_METHOD u64 mass(T x) const {
        acc_t<T> value = widen(x);
        // Equal infinities have no difference.
        return mass_of(value == largest ? 0.0f : f32(largest - value), args.rate, args.shift);
    }
    OPS_METHOD u64 mass_at(Key place) const { return mass(element_of<T>(place ^ all_bits<T>(), false)); }

    // The first of the largest logits; the first NaN.
    OPS_METHOD Best best() const {
        auto lane = IndexOf<T>::start_lane(thread_x());
        each([&](u64 i, T x) OPS_INLINE { IndexOf<T>::take(lane, x, i, false); });
        Best value[1] = {IndexOf<T>::total(lane, false)};
        reduce_block<SAMPLE_BLOCK, 1>(value, scratch, First());
        return value[0];
    }
    struct First {
        OPS_METHOD Best operator()(Best a, Best b) const { return IndexOf<T>::join(a, b); }
    };

    // The bin in which the running sum, which is `before` before the first bin, exceeds `bound`; and the sum before that bin.
    OPS_METHOD Passed<u32> pick(u64 before, u64 bound) const {
        u64 first = bins[2 * thread_x()], own = first + bins[2 * thread_x() + 1], sum = own;
        OPS_NO_UNROLL
        for (u32 step = 1; step < OPS_WAVE; step *= 2) {
            u64 lower = shuffle(sum, (lane_id() - step) & (OPS_WAVE - 1), OPS_WAVE);
            if (lane_id() >= step) sum += lower;
        }
        if (lane_id() == OPS_WAVE - 1) totals[wave_id()] = sum;
        barrier();
        u64 start = before + sum - own;
        OPS_NO_UNROLL
        for (u32 w = 0; w < wave_id(); w++) start += totals[w];
        if (start <= bound && bound < start + own) {
            bool second = bound >= start + first;
            totals[SAMPLE_WAVES] = 2 * thread_x() + (second ? 1 : 0);
            totals[SAMPLE_WAVES + 1] = second ? start + first : start;
        }
        barrier();
        return Passed<u32>{same_in_wave(u32(totals[SAMPLE_WAVES])), wide_same_in_wave(totals[SAMPLE_WAVES + 1])};
    }

    // Where the running sum of `amount`, in the order of `place`, first exceeds `bound`, which must be below the whole sum.
    // Places have `bits` bits.
    template <typename P, typename Place, typename Amount>
    OPS_METHOD Passed<P> find(u32 bits, u64 bound, Place place, Amount amount) const {
        Passed<P> passed{0, 0};
        P known = 0;
        u32 shift = bits;
        do {
            u32 width = shift < SAMPLE_DIGIT ? shift : SAMPLE_DIGIT;
            shift -= width;
            P digit = (P(1) << width) - 1;
            for (u32 b = thread_x(); b < SAMPLE_BINS; b += SAMPLE_BLOCK) bins[b] = 0;
            barrier();
            each([&](u64 i, T x) OPS_INLINE {
                P p = place(i, x);
                if ((p & known) != passed.place) return;
                u64 add = amount(x);
                if (add != 0) add_in_lds(bins + u32((p >> shift) & digit), add);
            });
            barrier();
            Passed<u32> bin = pick(passed.before, bound);
            passed = Passed<P>{passed.place | P(bin.place) << shift, bin.before};
            known |= digit << shift;
        } while (shift > 0);
        return passed;
    }

    // The sum of `amount` over all logits.
    template <typename Amount> OPS_METHOD u64 sum(Amount amount) const {
        u64 value[1] = {0};
        each([&](u64, T x) OPS_INLINE { value[0] += amount(x); });
        reduce_block<SAMPLE_BLOCK, 1>(value, totals, Sum());
        barrier();
        return wide_same_in_wave(value[0]);
    }

    // The mass of the `top_k` first ids. Ids of equal logits have equal masses, so it does not matter which of them are kept.
    OPS_METHOD u64 kept() const {
        if (args.top_k >= args.columns) return sum([&](T x) OPS_INLINE { return mass(x); });
        auto place = [](u64, T x) OPS_INLINE { return place_of(x); };
        Passed<Key> last = find<Key>(KEY_BITS, args.top_k - 1, place, [](T) OPS_INLINE { return u64(1); });
        u64 before = sum([&](T x) OPS_INLINE { return place_of(x) < last.place ? mass(x) : 0; });
        return before + (args.top_k - last.before) * mass_at(last.place);
    }

    // The id of a row.
    OPS_METHOD u32 draw(u64 row) {
        Best top = best();
        largest = widen(at(top.index));
        if (args.greedy != 0 || is_nan(largest) || largest == -acc_t<T>(infinity32())) return top.index;
        u64 all = kept();
        auto place = [](u64, T x) OPS_INLINE { return place_of(x); };
        auto amount = [&](T x) OPS_INLINE { return mass(x); };
        if (args.share < SAMPLE_WHOLE) {
            u64 low = args.share * all, needed = multiply_high(args.share, all) << 1 | low >> 63;
            if ((low << 1) != 0) needed += 1;
            if (needed == 0) needed = 1;
            Passed<Key> last = find<Key>(KEY_BITS, needed - 1, place, amount);
            u64 each = mass_at(last.place);
            all = last.before + ((needed - 1 - last.before) / each + 1) * each;
        }
        const i64* counter = args.counter;
        u64 factor = u64(philox(u64(counter[i64(row) * args.counter_stride]), 0, args.seed).v[0]) * 2 + 1;
        u64 bound = multiply_high(factor, all) << 31 | (factor * all) >> 33;
        Passed<Key> last = find<Key>(KEY_BITS, bound, place, amount);
        // Of the ids with this logit, the one that the rest of the bound leads to.
        u64 rank = (bound - last.before) / mass_at(last.place);
        u32 bits = 64 - leading_zeros(args.columns - 1);
        auto own = [&](T x) OPS_INLINE { return place_of(x) == last.place ? u64(1) : u64(0); };
        return find<u32>(bits, rank, [](u64 i, T) OPS_INLINE { return u32(i); }, own).place;
    }
};

template <typename T> OPS_DEVICE void sample(const SampleArgs& args) {
    OPS_LDS(u64, bins, SAMPLE_BINS);
    OPS_LDS(u64, totals, SAMPLE_WAVES + 2);
    OPS_LDS(Ranked<key_t<T>>, scratch, SAMPLE_WAVES);
    for (u64 row = block_x(); row < args.rows; row += grid_x()) {
        const T* logits = static_cast<const T*>(args.logits) + i64(row) * args.logits_stride[0];
        Sampler<T> sampler{args, logits, bins, totals, scratch, acc_t<T>(0)};
        u32 id = sampler.draw(row);
        if (thread_x() == 0) static_cast<u32*>(args.ids)[i64(row) * args.ids_stride] = id;
        barrier();
    }
}

// The fractions that a Philox block's words are, of the accumulator's precision or fewer bits.
template <typename T> struct Fractions {
    static constexpr u32 COUNT = 4, ALL = 24;
    static constexpr u32 PRECISION = sizeof(T) == 4 ? 24 : same<T, f16>::value ? 11 : 8;
    OPS_METHOD static f32 of(const Pack<u32, 4>& words, u32 i, u32 bits) {
        return f32(words.v[i] >> (32 - bits)) * (1.0f / f32(1u << bits));
    }
};
template <> struct Fractions<f64> {
    static constexpr u32 COUNT = 2, ALL = 53, PRECISION = 53;
    OPS_METHOD static f64 of(const Pack<u32, 4>& words, u32 i, u32) {
        return f64((u64(words.v[2 * i + 1]) << 32 | words.v[2 * i]) >> 11) * 0x1p-53;
    }
};

OPS_DEVICE f32 sin_of(f32 r) { return sin_reduced(r); }
OPS_DEVICE f32 cos_of(f32 r) { return cos_reduced(r); }
OPS_DEVICE f64 sin_of(f64 r) { return sin_reduced(r, 0.0); }
OPS_DEVICE f64 cos_of(f64 r) { return cos_reduced(r, 0.0); }

// Two normal numbers of two fractions.
template <typename A> OPS_DEVICE void normal(A u, A v, A& first, A& second) {
    A radius = sqrt(A(-2) * log(A(1) - u));
    A quarter = nearest_even(A(4) * v);
    A angle = (v - quarter * A(0.25)) * A(6.283185307179586);  // the difference is exact
    A sin = sin_of(angle), cos = cos_of(angle);
    u32 quadrant = u32(i32(quarter)) & 3;
    first = radius * (quadrant == 0 ? cos : quadrant == 1 ? -sin : quadrant == 2 ? -cos : sin);
    second = radius * (quadrant == 0 ? sin : quadrant == 1 ? cos : quadrant == 2 ? -sin : -cos);
}

// Writes the numbers of each block, which make(words) returns.
template <typename T, typename F> OPS_DEVICE void random(const RandomArgs& args, F make) {
    constexpr u32 N = Fractions<T>::COUNT;
    bool contiguous = args.shape.rank <= 1 && args.y.stride[MAX_RANK - 1] == 1;
    T* y = args.y.data;
    for (u64 block = global_thread(); block * N < args.shape.count; block += global_threads()) {
        Pack<T, N> out = make(philox(args.offset + block, 1, args.seed));
        u64 first = block * N, left = args.shape.count - first;
        if (contiguous && left >= N && is_aligned(y, sizeof(T) * N)) {
            store_pack<N>(y + first, out);
            continue;
        }
        OPS_UNROLL
        for (u32 i = 0; i < N; i++) {
            if (i < left) y[contiguous ? i64(first + i) : offset_of<MAX_RANK - 1>(args.shape, args.y, first + i)] = out.v[i];
        }
    }
}

template <typename T> OPS_DEVICE void random_uniform(const RandomArgs& args) {
    using Of = Fractions<T>;
    random<T>(args, [](const Pack<u32, 4>& words) OPS_INLINE {
        Pack<T, Of::COUNT> out;
        OPS_UNROLL
        for (u32 i = 0; i < Of::COUNT; i++) out.v[i] = narrow<T>(Of::of(words, i, Of::PRECISION));
        return out;
    });
}

template <typename T> OPS_DEVICE void random_normal(const RandomArgs& args) {
    using Of = Fractions<T>;
    random<T>(args, [](const Pack<u32, 4>& words) OPS_INLINE {
        Pack<T, Of::COUNT> out;
        OPS_UNROLL
        for (u32 i = 0; i < Of::COUNT; i += 2) {
            acc_t<T> first, second;
            normal(Of::of(words, i, Of::ALL), Of::of(words, i + 1, Of::ALL), first, second);
            out.v[i] = narrow<T>(first);
            out.v[i + 1] = narrow<T>(second);
        }
        return out;
    });
}

}  // namespace ops
