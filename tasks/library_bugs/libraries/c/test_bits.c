#include "check.h"
#include "bits.h"

TEST(counts_ones) {
    CHECK(count_ones(0), 0);
    CHECK(count_ones(0xf0f1), 9);
    CHECK(count_ones(0xffffffff), 32);
}
TEST(finds_the_highest_bit) {
    CHECK(highest_bit(1), 0);
    CHECK(highest_bit(0x90), 7);
}
TEST(finds_no_highest_bit) {
    CHECK(highest_bit(0), -1);
}
TEST(finds_the_lowest_bit) {
    CHECK(lowest_bit(0x90), 4);
    CHECK(lowest_bit(0x80000000), 31);
    CHECK(lowest_bit(3), 0);
}
TEST(finds_no_lowest_bit) {
    CHECK(lowest_bit(0), -1);
}
TEST(rotates) {
    CHECK(rotate_left(0x80000001, 1), 3);
    CHECK(rotate_left(0x12345678, 8), 0x34567812);
}
TEST(rotates_by_nothing) {
    CHECK(rotate_left(0x1234, 0), 0x1234);
    CHECK(rotate_left(0x1234, 32), 0x1234);
}
TEST(rotates_back) {
    CHECK(rotate_left(3, -1), 0x80000001);
}
TEST(reverses) {
    CHECK(reverse_bits(1), 0x80000000);
    CHECK(reverse_bits(0x0000f00a), 0x500f0000);
}
TEST(reads_a_field) {
    CHECK(field(0xabcd, 4, 8), 0xbc);
    CHECK(field(0xabcd, 0, 32), 0xabcd);
}
TEST(writes_a_field) {
    CHECK(set_field(0xffff, 4, 8, 0), 0xf00f);
    CHECK(set_field(0, 8, 4, 5), 0x500);
}
TEST(writes_no_more_than_a_field) {
    CHECK(set_field(0, 4, 4, 0xff), 0xf0);
}
TEST(knows_powers_of_two) {
    CHECK(is_power_of_two(64), 1);
    CHECK(is_power_of_two(65), 0);
    CHECK(is_power_of_two(0), 0);
}
TEST(rounds_up) {
    CHECK(round_up(17), 32);
    CHECK(round_up(16), 16);
    CHECK(round_up(3), 4);
}
TEST(rounds_up_the_smallest) {
    CHECK(round_up(0), 1);
    CHECK(round_up(1), 1);
    CHECK(round_up(2), 2);
}
