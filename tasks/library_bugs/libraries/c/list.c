#include "list.h"
#include <stdlib.h>

/* A list of numbers that grows. All functions that may fail return 0 then, and 1 if all is well. */

void list_init(struct list *list) {
    list->items = NULL;
    list->length = 0;
    list->room = 0;
}

void list_free(struct list *list) {
    free(list->items);
    list_init(list);
}

static int grow(struct list *list) {
    if (list->length < list->room) {
        return 1;
    }
    int room = list->room == 0 ? 4 : list->room * 2;
    int *items = realloc(list->items, room * sizeof(int));
    if (items == NULL) {
        return 0;
    }
    list->items = items;
    list->room = room;
    return 1;
}

int list_insert(struct list *list, int at, int value) {
    if (at < 0 || at > list->length || !grow(list)) {
        return 0;
    }
    for (int i = list->length; i > at; i--) {
        list->items[i] = list->items[i - 1];
    }
    list->items[at] = value;
    list->length++;
    return 1;
}

int list_push(struct list *list, int value) {
    return list_insert(list, list->length, value);
}

int list_remove(struct list *list, int at) {
    if (at < 0 || at >= list->length) {
        return 0;
    }
    for (int i = at; i < list->length - 1; i++) {
        list->items[i] = list->items[i + 1];
    }
    list->length--;
    return 1;
}

/* The place of a value from a place on, -1 if there is none. */
int list_find(const struct list *list, int value, int from) {
    for (int i = from < 0 ? 0 : from; i < list->length; i++) {
        if (list->items[i] == value) {
            return i;
        }
    }
    return -1;
}

void list_reverse(struct list *list) {
    for (int i = 0, j = list->length - 1; i < j; i++, j--) {
        int kept = list->items[i];
        list->items[i] = list->items[j];
        list->items[j] = kept;
    }
}

/* Take away each value that stands there already; the first stays. */
int list_unique(struct list *list) {
    int removed = 0;
    for (int i = 0; i < list->length; i++) {
        int again = list_find(list, list->items[i], i + 1);
        while (again >= 0) {
            list_remove(list, again);
            removed++;
            again = list_find(list, list->items[i], i + 1);
        }
    }
    return removed;
}
