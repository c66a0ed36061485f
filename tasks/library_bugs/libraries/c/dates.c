#include "dates.h"

/* Dates of the Gregorian calendar, without time zones. */

int is_leap(int year) {
    return (year % 4 == 0 && year % 100 != 0) || year % 400 == 0;
}

int days_in_month(int year, int month) {
    if (month < 1 || month > 12) {
        return 0;
    }
    if (month == 2) {
        return is_leap(year) ? 29 : 28;
    }
    if (month == 4 || month == 6 || month == 9 || month == 11) {
        return 30;
    }
    return 31;
}

int is_valid(struct date date) {
    return date.day >= 1 && date.day <= days_in_month(date.year, date.month);
}

/* The day of the year, from 1. */
int day_of_year(struct date date) {
    int days = date.day;
    for (int month = 1; month < date.month; month++) {
        days += days_in_month(date.year, month);
    }
    return days;
}

/* Days since 1 January of the year 1, which is day 1. */
long day_number(struct date date) {
    long before = date.year - 1;
    return before * 365 + before / 4 - before / 100 + before / 400 + day_of_year(date);
}

/* 0 for Sunday to 6 for Saturday. */
int weekday(struct date date) {
    return day_number(date) % 7;
}

struct date add_days(struct date date, int days) {
    date.day += days;
    while (date.day > days_in_month(date.year, date.month)) {
        date.day -= days_in_month(date.year, date.month);
        date.month++;
        if (date.month > 12) {
            date.month = 1;
            date.year++;
        }
    }
    while (date.day < 1) {
        date.month--;
        if (date.month < 1) {
            date.month = 12;
            date.year--;
        }
        date.day += days_in_month(date.year, date.month);
    }
    return date;
}

long days_between(struct date from, struct date to) {
    return day_number(to) - day_number(from);
}

/* The same day of another month; the last of that month where it has no such day. */
struct date add_months(struct date date, int months) {
    int all = date.year * 12 + date.month - 1 + months;
    date.year = all / 12;
    date.month = all % 12 + 1;
    int last = days_in_month(date.year, date.month);
    if (date.day > last) {
        date.day = last;
    }
    return date;
}
