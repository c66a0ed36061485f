#include "check.h"
#include "heap.h"

static struct heap heap;

static void fill(int count, const int *values) {
    heap.length = 0;
    for (int i = 0; i < count; i++) {
        heap_push(&heap, values[i]);
    }
}

static long emptied(void) {
    long number = 0;
    int value = 0;
    while (heap_pop(&heap, &value) && number < 1000000000) {
        number = number * 10 + value;
    }
    return number;
}

TEST(the_smallest_comes_first) {
    fill(5, (int[]){4, 2, 5, 1, 3});
    CHECK(emptied(), 12345);
}
TEST(equal_numbers_stay) {
    fill(4, (int[]){2, 1, 2, 1});
    CHECK(emptied(), 1122);
}
TEST(in_order_already) {
    fill(6, (int[]){1, 2, 3, 4, 5, 6});
    CHECK(emptied(), 123456);
}
TEST(in_reverse_order) {
    fill(7, (int[]){7, 6, 5, 4, 3, 2, 1});
    CHECK(emptied(), 1234567);
}
TEST(push_keeps_it_valid) {
    fill(6, (int[]){5, 3, 8, 1, 9, 2});
    CHECK(heap_is_valid(&heap), 1);
    CHECK(heap.items[0], 1);
}
TEST(push_until_it_is_full) {
    heap.length = 0;
    for (int i = 0; i < HEAP_ROOM; i++) {
        CHECK(heap_push(&heap, i), 1);
    }
    CHECK(heap_push(&heap, 99), 0);
    CHECK(heap.length, 16);
}
TEST(pop_nothing) {
    int value = 7;
    heap.length = 0;
    CHECK(heap_pop(&heap, &value), 0);
    CHECK(value, 7);
}
TEST(pop_the_last) {
    int value = 0;
    fill(1, (int[]){5});
    CHECK(heap_pop(&heap, &value), 1);
    CHECK(value * 10 + heap.length, 50);
}
TEST(replace_gives_the_smallest) {
    fill(4, (int[]){4, 2, 6, 3});
    CHECK(heap_replace(&heap, 5), 2);
    CHECK(emptied(), 3456);
}
TEST(replace_with_a_smaller_one) {
    fill(3, (int[]){4, 2, 6});
    CHECK(heap_replace(&heap, 1), 2);
    CHECK(emptied(), 146);
}
TEST(make_of_any_order) {
    heap_make(&heap, (int[]){9, 4, 7, 1, 8, 2}, 6);
    CHECK(heap_is_valid(&heap), 1);
    CHECK(emptied(), 124789);
}
TEST(make_of_two) {
    heap_make(&heap, (int[]){2, 1}, 2);
    CHECK(heap.items[0], 1);
}
TEST(make_of_too_many) {
    int many[20] = {0};
    heap_make(&heap, many, 20);
    CHECK(heap.length, 16);
}
TEST(knows_what_is_no_heap) {
    heap.length = 3;
    heap.items[0] = 2;
    heap.items[1] = 3;
    heap.items[2] = 1;
    CHECK(heap_is_valid(&heap), 0);
    heap.items[2] = 2;
    CHECK(heap_is_valid(&heap), 1);
}
