#include "check.h"
#include "list.h"

static struct list list;

static void fill(int count, const int *values) {
    list_init(&list);
    for (int i = 0; i < count; i++) {
        list_push(&list, values[i]);
    }
}

static long shown(void) {
    long number = 0;
    for (int i = 0; i < list.length; i++) {
        number = number * 10 + list.items[i];
    }
    return number;
}

TEST(push_keeps_the_order) {
    fill(6, (int[]){1, 2, 3, 4, 5, 6});
    CHECK(shown(), 123456);
}
TEST(push_makes_room) {
    fill(5, (int[]){1, 2, 3, 4, 5});
    CHECK(list.room, 8);
}
TEST(push_makes_no_room_before_it_must) {
    fill(4, (int[]){1, 2, 3, 4});
    CHECK(list.room, 4);
}
TEST(insert_in_the_middle) {
    fill(3, (int[]){1, 2, 3});
    CHECK(list_insert(&list, 1, 9), 1);
    CHECK(shown(), 1923);
}
TEST(insert_at_both_ends) {
    fill(2, (int[]){1, 2});
    CHECK(list_insert(&list, 0, 8), 1);
    CHECK(list_insert(&list, 3, 9), 1);
    CHECK(shown(), 8129);
}
TEST(insert_nowhere_else) {
    fill(2, (int[]){1, 2});
    CHECK(list_insert(&list, 3, 9), 0);
    CHECK(list_insert(&list, -1, 9), 0);
    CHECK(list.length, 2);
}
TEST(remove_one) {
    fill(4, (int[]){1, 2, 3, 4});
    CHECK(list_remove(&list, 1), 1);
    CHECK(shown(), 134);
}
TEST(remove_the_first_and_the_last) {
    fill(4, (int[]){1, 2, 3, 4});
    CHECK(list_remove(&list, 3), 1);
    CHECK(list_remove(&list, 0), 1);
    CHECK(shown(), 23);
}
TEST(remove_nothing_outside) {
    fill(2, (int[]){1, 2});
    CHECK(list_remove(&list, 2), 0);
    CHECK(list_remove(&list, -1), 0);
    CHECK(shown(), 12);
}
TEST(find_from_a_place_on) {
    fill(5, (int[]){7, 8, 7, 9, 7});
    CHECK(list_find(&list, 7, 0), 0);
    CHECK(list_find(&list, 7, 1), 2);
    CHECK(list_find(&list, 7, -3), 0);
}
TEST(find_nothing) {
    fill(2, (int[]){1, 2});
    CHECK(list_find(&list, 3, 0), -1);
    CHECK(list_find(&list, 1, 1), -1);
}
TEST(reverse_an_odd_number) {
    fill(3, (int[]){1, 2, 3});
    list_reverse(&list);
    CHECK(shown(), 321);
}
TEST(reverse_an_even_number) {
    fill(4, (int[]){1, 2, 3, 4});
    list_reverse(&list);
    CHECK(shown(), 4321);
}
TEST(unique_leaves_the_first) {
    fill(6, (int[]){1, 2, 1, 3, 1, 2});
    CHECK(list_unique(&list), 3);
    CHECK(shown(), 123);
}
TEST(free_empties) {
    fill(2, (int[]){1, 2});
    list_free(&list);
    CHECK(list.length + list.room, 0);
}
