#include "check.h"
#include "dates.h"

static struct date on(int year, int month, int day) {
    struct date date = {year, month, day};
    return date;
}

static long shown(struct date date) {
    return date.year * 10000L + date.month * 100 + date.day;
}

TEST(leap_years) {
    CHECK(is_leap(2024), 1);
    CHECK(is_leap(2023), 0);
}
TEST(leap_centuries) {
    CHECK(is_leap(1900), 0);
    CHECK(is_leap(2000), 1);
}
TEST(lengths_of_months) {
    CHECK(days_in_month(2023, 1) * 10000 + days_in_month(2023, 4) * 100 + days_in_month(2023, 12), 313031);
    CHECK(days_in_month(2023, 6) * 10000 + days_in_month(2023, 9) * 100 + days_in_month(2023, 11), 303030);
}
TEST(length_of_february) {
    CHECK(days_in_month(2023, 2), 28);
    CHECK(days_in_month(2024, 2), 29);
}
TEST(no_such_month) {
    CHECK(days_in_month(2023, 0), 0);
    CHECK(days_in_month(2023, 13), 0);
}
TEST(valid_dates) {
    CHECK(is_valid(on(2023, 1, 31)), 1);
    CHECK(is_valid(on(2023, 1, 1)), 1);
}
TEST(dates_that_are_not) {
    CHECK(is_valid(on(2023, 2, 29)), 0);
    CHECK(is_valid(on(2023, 5, 0)), 0);
}
TEST(day_of_the_year) {
    CHECK(day_of_year(on(2023, 1, 1)), 1);
    CHECK(day_of_year(on(2023, 12, 31)), 365);
    CHECK(day_of_year(on(2024, 3, 1)), 61);
}
TEST(numbers_of_days) {
    CHECK(day_number(on(1, 1, 1)), 1);
    CHECK(day_number(on(2000, 1, 1)), 730120);
}
TEST(days_of_the_week) {
    CHECK(weekday(on(2024, 2, 29)), 4);
    CHECK(weekday(on(2023, 1, 1)), 0);
}
TEST(add_within_a_month) {
    CHECK(shown(add_days(on(2023, 3, 1), 30)), 20230331);
}
TEST(add_over_a_year) {
    CHECK(shown(add_days(on(2023, 12, 30), 3)), 20240102);
}
TEST(add_over_leap_days) {
    CHECK(shown(add_days(on(2024, 2, 28), 367)), 20250301);
}
TEST(take_days_away) {
    CHECK(shown(add_days(on(2024, 1, 1), -1)), 20231231);
    CHECK(shown(add_days(on(2024, 3, 1), -1)), 20240229);
}
TEST(between_two_dates) {
    CHECK(days_between(on(1999, 12, 31), on(2000, 12, 31)), 366);
    CHECK(days_between(on(2023, 1, 2), on(2023, 1, 1)), -1);
}
TEST(add_months_to_a_short_month) {
    CHECK(shown(add_months(on(2023, 1, 31), 1)), 20230228);
    CHECK(shown(add_months(on(2023, 1, 31), 2)), 20230331);
}
TEST(add_months_over_years) {
    CHECK(shown(add_months(on(2023, 11, 5), 14)), 20250105);
    CHECK(shown(add_months(on(2023, 1, 5), 11)), 20231205);
}
