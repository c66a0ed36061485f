struct fraction {
    long top;
    long bottom;
};

long greatest_divisor(long a, long b);
struct fraction make(long top, long bottom);
struct fraction add(struct fraction a, struct fraction b);
struct fraction subtract(struct fraction a, struct fraction b);
struct fraction multiply(struct fraction a, struct fraction b);
struct fraction divide(struct fraction a, struct fraction b);
int compare(struct fraction a, struct fraction b);
long whole_below(struct fraction a);
struct fraction power(struct fraction base, int exponent);
