/* Tests by name: `TEST(name) { CHECK(got, want); }`; the program runs the one that its argument names. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef void (*test_function)(void);
static struct { const char *name; test_function function; } all_tests[64];
static int test_count;

#define TEST(test)                                                       \
    static void test(void);                                              \
    __attribute__((constructor)) static void add_##test(void) {          \
        all_tests[test_count].name = #test;                              \
        all_tests[test_count].function = test;                           \
        test_count += 1;                                                 \
    }                                                                    \
    static void test(void)

#define CHECK(got, want)                                                 \
    do {                                                                 \
        long long is_ = (got), should_ = (want);                         \
        if (is_ != should_) {                                            \
            fprintf(stderr, "%s is %lld, and should be %lld\n", #got, is_, should_); \
            exit(1);                                                     \
        }                                                                \
    } while (0)

#define CHECK_TEXT(got, want)                                            \
    do {                                                                 \
        const char *is_ = (got), *should_ = (want);                      \
        if (strcmp(is_, should_) != 0) {                                 \
            fprintf(stderr, "%s is \"%s\", and should be \"%s\"\n", #got, is_, should_); \
            exit(1);                                                     \
        }                                                                \
    } while (0)

int main(int count, char **arguments) {
    for (int i = 0; i < test_count; i++) {
        if (count == 2 && strcmp(arguments[1], all_tests[i].name) == 0) {
            all_tests[i].function();
            return 0;
        }
    }
    return 2;
}
