#include "check.h"
#include "fractions.h"

static const char *shown(struct fraction a) {
    static char text[64];
    sprintf(text, "%ld/%ld", a.top, a.bottom);
    return text;
}

TEST(divisors) {
    CHECK(greatest_divisor(12, 18), 6);
    CHECK(greatest_divisor(7, 0), 7);
}
TEST(divisors_of_negative_numbers) {
    CHECK(greatest_divisor(-4, 6), 2);
    CHECK(greatest_divisor(4, -6), 2);
}
TEST(lowest_terms) {
    CHECK_TEXT(shown(make(6, 8)), "3/4");
}
TEST(the_sign_is_above) {
    CHECK_TEXT(shown(make(3, -6)), "-1/2");
    CHECK_TEXT(shown(make(-3, -6)), "1/2");
}
TEST(a_denominator_of_zero_is_no_number) {
    CHECK_TEXT(shown(make(3, 0)), "0/0");
}
TEST(adds) {
    CHECK_TEXT(shown(add(make(1, 2), make(1, 3))), "5/6");
    CHECK_TEXT(shown(add(make(1, 6), make(1, 3))), "1/2");
}
TEST(subtracts) {
    CHECK_TEXT(shown(subtract(make(1, 2), make(1, 3))), "1/6");
}
TEST(multiplies) {
    CHECK_TEXT(shown(multiply(make(2, 3), make(3, 5))), "2/5");
}
TEST(divides) {
    CHECK_TEXT(shown(divide(make(2, 3), make(5, 7))), "14/15");
}
TEST(divides_by_a_negative_number) {
    CHECK_TEXT(shown(divide(make(1, 3), make(-1, 2))), "-2/3");
}
TEST(nothing_is_divided_by_zero) {
    CHECK_TEXT(shown(divide(make(2, 3), make(0, 7))), "0/0");
}
TEST(compares) {
    CHECK(compare(make(1, 3), make(1, 2)), -1);
    CHECK(compare(make(2, 4), make(1, 2)), 0);
    CHECK(compare(make(-1, 3), make(-1, 2)), 1);
}
TEST(goes_down_to_a_whole_number) {
    CHECK(whole_below(make(7, 2)), 3);
    CHECK(whole_below(make(8, 2)), 4);
}
TEST(goes_down_below_zero) {
    CHECK(whole_below(make(-7, 2)), -4);
    CHECK(whole_below(make(-8, 2)), -4);
}
TEST(raises) {
    CHECK_TEXT(shown(power(make(2, 3), 3)), "8/27");
    CHECK_TEXT(shown(power(make(2, 3), 0)), "1/1");
}
TEST(raises_to_a_negative_power) {
    CHECK_TEXT(shown(power(make(2, 3), -2)), "9/4");
}
