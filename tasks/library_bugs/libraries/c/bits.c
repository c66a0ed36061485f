#include "bits.h"

/* Words of 32 bits. */

int count_ones(uint32_t word) {
    int ones = 0;
    while (word != 0) {
        word &= word - 1;
        ones++;
    }
    return ones;
}

/* The place of the highest bit that is set, -1 if none is. */
int highest_bit(uint32_t word) {
    int place = -1;
    while (word != 0) {
        word >>= 1;
        place++;
    }
    return place;
}

/* The place of the lowest bit that is set, -1 if none is. */
int lowest_bit(uint32_t word) {
    for (int place = 0; place < 32; place++) {
        if (word & (1u << place)) {
            return place;
        }
    }
    return -1;
}

uint32_t rotate_left(uint32_t word, int places) {
    places %= 32;
    if (places < 0) {
        places += 32;
    }
    if (places == 0) {
        return word;
    }
    return (word << places) | (word >> (32 - places));
}

uint32_t reverse_bits(uint32_t word) {
    uint32_t result = 0;
    for (int place = 0; place < 32; place++) {
        result = (result << 1) | (word & 1);
        word >>= 1;
    }
    return result;
}

/* Bits from place `from` on, `count` of them. */
uint32_t field(uint32_t word, int from, int count) {
    if (count >= 32) {
        return word >> from;
    }
    return (word >> from) & ((1u << count) - 1);
}

uint32_t set_field(uint32_t word, int from, int count, uint32_t value) {
    uint32_t mask = ((1u << count) - 1) << from;
    return (word & ~mask) | ((value << from) & mask);
}

int is_power_of_two(uint32_t word) {
    return word != 0 && (word & (word - 1)) == 0;
}

/* The next power of two that is not smaller, 1 for 0. */
uint32_t round_up(uint32_t word) {
    if (word <= 1) {
        return 1;
    }
    return 1u << (highest_bit(word - 1) + 1);
}
