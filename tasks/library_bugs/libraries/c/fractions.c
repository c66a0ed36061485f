#include "fractions.h"

/* Fractions in lowest terms, with a positive denominator. A denominator of 0 stands for no number. */

static const struct fraction NOTHING = {0, 0};

static long absolute(long value) {
    return value < 0 ? -value : value;
}

long greatest_divisor(long a, long b) {
    a = absolute(a);
    b = absolute(b);
    while (b != 0) {
        long rest = a % b;
        a = b;
        b = rest;
    }
    return a;
}

struct fraction make(long top, long bottom) {
    if (bottom == 0) {
        return NOTHING;
    }
    long divisor = greatest_divisor(top, bottom);
    if (bottom < 0) {
        divisor = -divisor;
    }
    struct fraction result = {top / divisor, bottom / divisor};
    return result;
}

struct fraction add(struct fraction a, struct fraction b) {
    return make(a.top * b.bottom + b.top * a.bottom, a.bottom * b.bottom);
}

struct fraction subtract(struct fraction a, struct fraction b) {
    b.top = -b.top;
    return add(a, b);
}

struct fraction multiply(struct fraction a, struct fraction b) {
    return make(a.top * b.top, a.bottom * b.bottom);
}

struct fraction divide(struct fraction a, struct fraction b) {
    if (b.top == 0) {
        return NOTHING;
    }
    return make(a.top * b.bottom, a.bottom * b.top);
}

/* -1, 0 or 1, as a is smaller, equal or greater. */
int compare(struct fraction a, struct fraction b) {
    long left = a.top * b.bottom;
    long right = b.top * a.bottom;
    if (left < right) {
        return -1;
    }
    return left > right;
}

/* The greatest whole number that is not greater. */
long whole_below(struct fraction a) {
    long whole = a.top / a.bottom;
    if (a.top < 0 && a.top % a.bottom != 0) {
        whole--;
    }
    return whole;
}

struct fraction power(struct fraction base, int exponent) {
    if (exponent < 0) {
        return divide(make(1, 1), power(base, -exponent));
    }
    struct fraction result = make(1, 1);
    for (int i = 0; i < exponent; i++) {
        result = multiply(result, base);
    }
    return result;
}
