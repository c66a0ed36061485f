struct date {
    int year;
    int month;
    int day;
};

int is_leap(int year);
int days_in_month(int year, int month);
int is_valid(struct date date);
int day_of_year(struct date date);
long day_number(struct date date);
int weekday(struct date date);
struct date add_days(struct date date, int days);
long days_between(struct date from, struct date to);
struct date add_months(struct date date, int months);
